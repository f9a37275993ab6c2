#include "sigma1/base/error.h"
#include "sigma1/base/mpi_ranks.h"

namespace sigma1 {

std::unique_ptr<Communicator> connect_mpi() {
  throw Error(
      "ranks: this process was started by mpirun or srun, and this sigma1 was built without MPI; "
      "install it (Debian: libopenmpi-dev openmpi-bin) and configure again");
}

bool has_mpi() { return false; }

}  // namespace sigma1
