"""Who may include what: rooms point only upwards, vendors stay in their room and out of public headers."""
import re

from sources import ROOMS

# vendor: (pattern of its headers, rooms whose sources may include it)
VENDORS = {
    "ONNX": (r"onnx/", ["formats"]),
    "Protobuf": (r"google/protobuf/|.*\.pb\.h$", ["formats", "exchange"]),
    "SimGrid": (r"simgrid/|xbt/|smpi/|simgrid\.h$", ["sim"]),
    "oneDNN": (r"dnnl|oneapi/dnnl", ["exec"]),
    "MPI": (r"mpi\.h$|mpi-ext\.h$", ["exec"]),
    "OpenMP": (r"omp\.h$", ["exec"]),
    "hwloc": (r"hwloc", ["exec"]),
    "CUDA": (r"cuda|cudnn|cublas|nccl|nvml", ["exec"]),
    "libzip": (r"zip\.h$", ["exec"]),
    "libjpeg": (r"jpeglib\.h$|jerror\.h$", ["exec"]),
    "libpng": (r"png\.h$", ["exec"]),
    "CLI11": (r"CLI/", ["cli"]),
    "valijson": (r"valijson/", ["platforms"]),
    "Eigen": (r"Eigen/", ["costmodel", "validation", "exec"]),
    "xxHash": (r"xxhash", ["exec"]),
    "nlohmann/json": (r"nlohmann/", ROOMS),
    "Catch2": (r"catch2/", []),
    "RapidCheck": (r"rapidcheck", []),
}
TEST_VENDORS = {"Catch2", "RapidCheck"}  # in tests/ only
NEVER_IN_HEADERS = {"nlohmann/json", "Eigen", "CLI11", "valijson", "libzip", "libjpeg", "libpng", "xxHash"}
HARMLESS = {"nlohmann/json_fwd.hpp"}  # declarations only


def vendor_of(header):
    return next((name for name, (pattern, _) in VENDORS.items() if re.match(pattern, header)), None)


def room_of(header):
    top = header.split("/")[0]
    return top if top in ROOMS and "/" in header else None


def check_order(sources):
    """A room includes only rooms that stand before it; simulation and execution never see each other."""
    for s in sources:
        if s.in_tests:
            continue
        for line, header, _ in s.includes:
            other = room_of(header)
            if header.startswith("tests/"):
                yield f"{s.path}:{line}: includes {header}: only tests may include tests/"
            elif other and other != s.room and ROOMS.index(other) > ROOMS.index(s.room):
                yield f"{s.path}:{line}: includes {header}: room '{s.room}' stands above '{other}' and may not know it"
            elif other == "sim" and s.room in ("exec", "cli"):
                yield f"{s.path}:{line}: includes {header}: 'sim' is opened on demand through predict's StepEvaluator, never included"


def check_cycles(sources):
    """No room reaches itself through other rooms, counted over what the files really include."""
    edges = {r: set() for r in ROOMS}
    for s in sources:
        if not s.in_tests:
            edges[s.room] |= {room_of(h) for _, h, _ in s.includes if room_of(h) not in (None, s.room)}
    for room in ROOMS:
        reached = reached_from(room, edges)
        if room in reached:
            yield f"{room}/: room '{room}' includes itself through {', '.join(sorted(reached - {room}))}"


def reached_from(start, edges):
    """Everything that `start` comes to along edges {node: set of nodes}; itself only where a cycle leads back."""
    reached, todo = set(), list(edges.get(start, ()))
    while todo:
        other = todo.pop()
        if other not in reached:
            reached.add(other)
            todo += edges.get(other, ())
    return reached


def check_folder_cycles(sources):
    """Folders of a room do not include each other in circles: a folder and those below it are folders like any two others. What a table
    lists stands beside the table, and what its rows share stands above both."""
    edges, places = {}, {}
    for s in sources:
        for line, header, _ in s.includes if not s.in_tests else ():
            own, other = folder(s.path), folder(header) if room_of(header) == s.room else None
            if other not in (None, own):
                edges.setdefault(own, set()).add(other)
                places.setdefault((own, other), f"{s.path}:{line}: includes {header}")
    reached = {f: reached_from(f, edges) for f in edges}
    for (own, other), place in sorted(places.items()):
        if own in reached.get(other, ()):
            yield f"{place}: {other} includes {own} too, or through others: folders of a room must not include each other in circles"


def check_vendors(sources):
    """A vendor's headers appear only in the rooms named in VENDORS."""
    for s in sources:
        for line, header, _ in s.includes:
            vendor = vendor_of(header)
            if vendor is None or header in HARMLESS or (s.in_tests and vendor in TEST_VENDORS):
                continue
            allowed = VENDORS[vendor][1]
            if s.owner not in allowed and not (s.in_tests and vendor == "nlohmann/json"):
                yield f"{s.path}:{line}: includes {header}: {vendor} is allowed only in {', '.join(allowed) or 'tests'}"


def check_public_headers(sources):
    """A header that brings a vendor in, itself or through others, is private to its folder: nobody else may include it."""
    by_path = {s.path: s for s in sources if not s.in_tests}
    carried = {}

    def vendor_through(path):
        if path not in carried:
            carried[path] = None  # also ends include cycles
            direct = [vendor_of(h) for _, h, _ in by_path[path].includes if h not in HARMLESS and vendor_of(h)]
            inner = [vendor_through(h) for _, h, _ in by_path[path].includes if h in by_path]
            carried[path] = next((v for v in direct + inner if v), None)
        return carried[path]

    for s in by_path.values():
        if s.is_header and vendor_through(s.path):
            if len(s.parts) == 2:
                yield f"{s.path}:1: a header at the top of a room is public and may not bring in {vendor_through(s.path)}"
            for line, header, _ in s.includes:
                if vendor_of(header) in NEVER_IN_HEADERS and header not in HARMLESS:
                    yield f"{s.path}:{line}: includes {header} in a header: include it in the .cpp"
        for line, header, _ in s.includes:
            if header in by_path and folder(header) != s.path[:len(folder(header))] and vendor_through(header):
                yield f"{s.path}:{line}: includes {header}, which brings in {vendor_through(header)} and is private to {folder(header)}"


def folder(path):
    return path.rsplit("/", 1)[0] + "/"


RULES = {"order": check_order, "cycle": check_cycles, "folder-cycle": check_folder_cycles, "vendor": check_vendors, "public-header": check_public_headers}
