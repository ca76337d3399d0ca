"""Measured kernels of GPUs: the tables of the package aiconfigurator-core (PyPI, NVIDIA, Apache-2.0), each kernel alone on a cool device.
What scripts/distil-products, distil-attention and fit-collectives share. Needs numpy and pyarrow (pip install numpy pyarrow)."""
import contextlib, glob, json, os, subprocess, sys, tempfile, zipfile

import numpy as np
import pyarrow.parquet as parquet

PACKAGE = "aiconfigurator-core==0.12.0"
SOURCE = f"{PACKAGE.replace('==', ' ')} (PyPI, NVIDIA, Apache-2.0)"
LIBRARIES = ("vllm", "sglang", "trtllm")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BANDWIDTH_SHARE = 0.8  # of the datasheet's, that streaming kernels reach
# Of a generation the devices: name in the tables, ours. The first is fitted, the others are held out.
GENERATIONS = {
    "ampere": [("a100_sxm", "A100-SXM4-80GB")],
    "hopper": [("h100_sxm", "H100-SXM5-80GB"), ("h200_sxm", "H200-SXM5-141GB")],
    "blackwell": [("b200_sxm", "B200-SXM-180GB"), ("gb200", "GB200-186GB")],
    "blackwell-ultra": [("b300_sxm", "B300-SXM-270GB"), ("gb300", "GB300-279GB")],
    "ada": [("l40s", "L40S-48GB")],
    "blackwell-gb20x": [("rtx_pro_6000_server", "RTX-PRO-6000-96GB")],
}


@contextlib.contextmanager
def unpacked(folder=None):
    """The folder that holds `systems/data`: `folder`, or without one the package, downloaded by pip into a temporary folder."""
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, PACKAGE], check=True)
            zipfile.ZipFile(glob.glob(f"{scratch}/*.whl")[0]).extractall(scratch)
            folder = f"{scratch}/aiconfigurator_core"
        if not os.path.isdir(f"{folder}/systems/data"):
            sys.exit(f"{folder}: holds no systems/data; the unpacked {PACKAGE} does")
        yield folder


def device(name):
    with open(f"{ROOT}/platforms/catalog/devices/{name}.json") as f:
        d = json.load(f)
    number = lambda text: float(text.split()[0])
    peaks = {k: number(v) * 1e12 for k, v in d["peaks"].items() if k != "sources"}
    if "fp4" in peaks:  # the third that Blackwell Ultra's datasheets have beyond is reached by no kernel (costmodel/precision.cpp)
        peaks["fp4"] = min(peaks["fp4"], 2 * peaks["fp8"])
    return {"units": d["compute_units"], "peaks": peaks, "bandwidth": number(d["memory_bandwidth"]) * 1e9}


def quickest(folder, system, kind, table, shape, wanted, libraries=LIBRARIES):
    """Columns of `shape` and seconds of the kernels that `wanted` (columns -> mask) keeps, sorted by shape: of every shape the quickest of
    `libraries`, of several their newest releases, where at least two measured it (or one alone has the table); of one all its releases.
    None where nothing is there."""
    seconds, least = {}, min(2, len(libraries))
    for library in libraries:
        files = sorted(glob.glob(f"{folder}/systems/data/{system}/{kind}/{library}/*/{table}.parquet"))
        for path in files[-1:] if least > 1 else files:
            read = parquet.read_table(path)
            columns = {c: np.array(read.column(c).to_pylist()) for c in read.column_names}
            keep = wanted(columns)
            for row in zip(*(columns[c][keep] for c in shape), columns["latency"][keep]):
                of_shape = seconds.setdefault(tuple(float(x) for x in row[:-1]), {})
                of_shape[library] = min(float(row[-1]) * 1e-3, of_shape.get(library, np.inf))
    lone = all(len(v) == 1 for v in seconds.values())
    rows = sorted((*key, min(v.values())) for key, v in seconds.items() if len(v) >= least or lone)
    return np.array(rows).T if rows else None


def every_fifth(count):
    """What is held out of a table's rows."""
    return np.arange(count) % 5 == 0


def write_rows(name, description, source, rows):
    """costmodel/constants/NAME.json, one row a line; ends the script and leaves the file where a generation has no row."""
    missing = [g for g in GENERATIONS if g not in {row["generation"] for row in rows}]
    if missing:
        sys.exit(f"{name}: the tables have no kernels of {', '.join(missing)}; costmodel/constants/{name}.json stays as it is")
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    with open(f"{ROOT}/costmodel/constants/{name}.json", "w") as f:
        f.write(f'{{\n "schema": 1,\n "description": {json.dumps(description)},\n "source": {json.dumps(source)},\n "rows": [\n{lines}\n ]\n}}\n')
