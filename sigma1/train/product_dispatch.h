// Products whose formats differ from the others': those that the user names, and those of 8 bits
// that a device computes no faster than in 16: they are left in 16, and the user is told.
#pragma once

#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Throws Error where the config's overrides name what is no product of its model.
void expect_known_products(const TrainConfig& config);

struct Dispatched {
  std::string product, because;
};

// Of the products that the config has in 8 bits. None where it says dispatch=none.
std::vector<Dispatched> products_left_in_16_bits(const TrainConfig& config, const Device& device);
// In the config's overrides.
void leave_in_16_bits(TrainConfig& config, const std::vector<Dispatched>& products);
// One line, by reasons; empty where there are none.
std::string to_string(const std::vector<Dispatched>& products);

}  // namespace sigma1
