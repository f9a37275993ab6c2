"""An XML parser judges our figures: well-formed, SVG, and with text a reader can find."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "figure.svg"
    subprocess.run([sys.argv[1], "snr", "--outliers", "--svg", path], check=True, capture_output=True)
    root = ElementTree.parse(path).getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
for expected in ["fp16", "fp8_e4m3", "int8:127/180", "maximum outlier", "SNR"]:
    assert expected in texts, f"{expected} is not in the figure: {texts}"
print(f"figure: well-formed SVG with {len(texts)} texts")
