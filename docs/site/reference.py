"""The reference: pages made from the program and its sources whenever the site is built, so that they cannot differ from them."""
import json
import re
import subprocess

from source_rows import rows_in

FROM = "*Made from {} when this site was built.*\n\n"


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text):
    return "`" + " ".join(str(text).split()).replace("|", "\\|") + "`" if text else ""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


class Program:
    def __init__(self, path):
        self.path = path

    def says(self, *words):
        return subprocess.run([self.path, *words], check=True, capture_output=True, text=True).stdout

    def json(self, *words):
        return json.loads(self.says(*words, "--format", "json"))


def sections(help_text):
    """[(title, [(name, meaning)])] of a help text: entries are indented by two, what follows them deeper."""
    result, title, entries = [], "", []
    for line in help_text.splitlines():
        if re.match(r"^\S.*:\s*$", line):
            title, entries = line.strip().rstrip(":"), []
            result.append((title, entries))
        elif title and re.match(r"^  \S", line):
            name, _, meaning = line.strip().partition("  ")
            entries.append([name, meaning.strip()])
        elif entries and re.match(r"^ {3,}\S", line):
            entries[-1][1] += " " + line.strip()
    return [(t, e) for t, e in result if e]


def subcommands(program, words):
    found = dict(sections(program.says(*words, "--help"))).get("Commands", [])
    return [name for name, _ in found]


def command_text(program, words, level):
    text = program.says(*words, "--help")
    lines = text.splitlines()
    usage = next(line for line in lines if line.startswith("Usage:"))
    parts = [f"{'#' * level} rehearse {' '.join(words)}\n\n{cell(lines[0])}\n\n```\n{usage[len('Usage: '):]}\n```\n"]
    for title, entries in sections(text):
        if title.startswith("Keys of a "):
            kind = title.split(",")[0].removeprefix("Keys of a ")
            parts.append(f"Keys of a {kind}: `rehearse {' '.join(words)} --help`" + (", [and here](../plan-keys.md)" if kind == "plan" else "") + ".\n")
        elif title not in ("Example", "Examples", "Commands"):
            parts.append(f"**{title}**\n\n" + table([title.rstrip("s"), "Meaning"], [[code(n), cell(m)] for n, m in entries]))
    example = len(words) == 1 and re.search(r"^Examples?:\n((?:  .*\n?)+)", text, re.M)
    if example:
        parts.append("**Example**\n\n```\n" + re.sub(r"^  ", "", example.group(1), flags=re.M).rstrip() + "\n```\n")
    parts += [command_text(program, [*words, name], level + 1) for name in subcommands(program, words)]
    return "\n".join(parts)


def commands(program, _root):
    pages = {}
    text = "# Commands\n\n" + FROM.format("`rehearse --help`")
    for title, entries in sections(program.says("--help")):
        if title == "Output":
            continue
        for name, _ in entries:
            pages[f"commands/{name}.md"] = command_text(program, [name], 1)
        rows = [[f"[`{name}`](commands/{name}.md)", cell(meaning)] for name, meaning in entries]
        text += f"## {title}\n\n" + table(["Command", "What it does"], rows) + "\n"
    pages["commands.md"] = text
    return pages


def plan_keys(_program, root):
    rows = [[code(r[0]), code(r[1]), "yes" if r[3] == "true" else "no", cell(r[6])] for r in rows_in(root / "plan/keys/plan_keys.cpp", r"PlanKey\{")]
    schema = json.loads((root / "plan/schema/plan.schema.json").read_text(encoding="utf-8"))
    return {"plan-keys.md": "# Keys of a plan\n\n" + FROM.format("`plan/keys/plan_keys.cpp` and `plan/schema/plan.schema.json`")
            + "In compact text: `dp=4,pp=2,micro_batch=1`. In a plan file each key stands in its section. What is left out is neutral.\n\n"
            + table(["Key", "Section of a file", "`auto` leaves it to the search", "Meaning"], rows)
            + "\n## Schema of plan files\n\n" + cell(schema["description"]) + "\n\n```json\n" + json.dumps(schema, indent=2) + "\n```\n"}


def type_of(node):
    if "$ref" in node:
        return node["$ref"].rsplit("/", 1)[1].replace("_", " ")
    if "enum" in node:
        return ", ".join(code(v) for v in node["enum"])
    if "const" in node:
        return code(json.dumps(node["const"]))
    if "anyOf" in node:
        return " or ".join(filter(None, (type_of(n) for n in node["anyOf"])))
    if node.get("type") == "array":
        return "list of " + type_of(node.get("items", {}))
    return node.get("type", "")


def object_table(node):
    needed = node.get("required", [])
    return table(["Key", "Type", "Required", "Meaning"],
                 [[code(key), type_of(value), "yes" if key in needed else "", cell(value.get("description", ""))]
                  for key, value in node["properties"].items()])


def platform_files(program, _root):
    schema = json.loads(program.says("platform", "schema"))
    text = "# Platform files\n\n" + FROM.format("`rehearse platform schema`") + cell(schema["description"]) + "\n\n" + object_table(schema)
    units = []
    for name, node in schema["definitions"].items():
        if "properties" in node:
            text += f"\n## {name.replace('_', ' ')}\n\n{cell(node.get('description', ''))}\n\n" + object_table(node)
        elif "pattern" in node:
            units.append([name.replace("_", " "), code(node["pattern"])])
    return {"platform-files.md": text + "\n## Quantities\n\nTexts of a number and a unit, each of a pattern:\n\n" + table(["Type", "Pattern"], units)}


def models(program, _root):
    zoo = program.json("zoo")
    rows = [[code(m["name"]), code(m["parameters"]), cell(m["description"])] for m in zoo["models"]]
    presets = [[code("zoo:" + m["name"]), code("zoo:" + m["reference"])] for m in zoo["presets"]]
    return {"models-list.md": "# Models of the zoo\n\n" + FROM.format("`rehearse zoo`") + "Written `zoo:NAME?key=value&...`.\n\n"
            + table(["Name", "Parameters and defaults", "What it is"], rows) + "\n## Published models by name\n\n" + table(["Name", "Stands for"], presets)}


def flops(value):
    return f"{value / 1e12:.4g}"


def machines(program, _root):
    platforms = [[code(p["name"]), str(p["nodes"]), str(p["devices"]), p["device"], cell(p["description"])] for p in program.json("platform", "list")["platforms"]]
    devices = [[d["name"], cell(d.get("generation", "")), f"{d['memory_bytes'] / 1e9:.4g}", f"{d['memory_bytes_per_second'] / 1e9:.5g}",
                cell(", ".join(f"{k} {flops(v)}" for k, v in d["peak_flops_per_second"].items()))] for d in program.json("platform", "devices")["devices"]]
    return {"machines.md": "# Machines of the catalogue\n\n" + FROM.format("`rehearse platform list` and `rehearse platform devices`")
            + table(["Platform", "Nodes", "Devices", "Device", "What it is"], platforms) + "\n## Devices\n\n"
            + table(["Device", "Generation", "Memory, GB", "GB/s", "Peak, TFLOP/s"], devices)}


def frameworks(_program, root):
    rows = []
    for path in sorted((root / "costmodel/profiles").glob("*.json")):
        profile = json.loads(path.read_text(encoding="utf-8"))
        rows.append([code(profile["name"]), cell(profile.get("description", "")), cell(profile.get("source", ""))])
    return {"frameworks.md": "# Frameworks\n\n" + FROM.format("`costmodel/profiles/`") + "What `--framework` takes. The command line page says which is taken where none is named.\n\n"
            + table(["Name", "What it is", "Source"], rows)}


def constants(_program, root):
    held = json.loads((root / "costmodel/constants/accelerators.json").read_text(encoding="utf-8"))
    rows = [[code(c["name"]), f"{c['value']:.4g}", cell(c["status"]), cell(c.get("meaning", "")), cell(c.get("source", ""))] for c in held["constants"]]
    return {"constants.md": "# Constants of the model\n\n" + FROM.format("`costmodel/constants/accelerators.json`") + cell(held["description"])
            + f"\n\nFrozen on {held['frozen']['date']}. \"The same\" is what the row above says, for another kind of device.\n\n"
            + table(["Name", "Value", "Status", "Meaning", "Source"], rows)}


def named_lists(_program, root):
    optimizers = [[code(r[0]), cell(r[1])] for r in rows_in(root / "graph/optimizers.cpp", r"(?<=\n    )\{")]
    schedules = [[code(r[0]), cell(r[1])] for p in sorted((root / "plan/schedules").glob("*.cpp"))
                 for r in rows_in(p, r"(?:ScheduleRow row\{|return \{|return ScheduleRow\{)") if len(r) > 3]
    collectives = [[cell(r[1].replace("CollectiveKind::", "")), code(r[0]), cell(r[2])] for p in sorted((root / "plan/collectives").glob("*.cpp"))
                   for r in rows_in(p, r"return (?:CollectiveRow)?\{") if len(r) > 3 and "CollectiveKind::" in r[1]]
    statuses = re.findall(r"^  (\w+) = (\d+),\s*(?:///< (.*))?$", (root / "base/error.hpp").read_text(encoding="utf-8"), re.M)
    return {"optimizers.md": "# Optimizers\n\n" + FROM.format("`graph/optimizers.cpp`") + "What `--optimizer` takes.\n\n" + table(["Name", "What it is"], optimizers),
            "schedules.md": "# Pipeline schedules\n\n" + FROM.format("`plan/schedules/`") + "Values of the key `schedule`.\n\n" + table(["Name", "What it is"], schedules),
            "collective-list.md": "# Collective algorithms\n\n" + FROM.format("`plan/collectives/`") + table(["Kind", "Name", "What it is"], sorted(collectives)),
            "exit-status.md": "# Exit statuses\n\n" + FROM.format("`base/error.hpp`")
            + table(["Status", "Name", "Meaning"], [[n, cell(name), cell(why or "what was asked for was done")] for name, n, why in statuses])}


def pages(program, root):
    """{path below reference/: text}"""
    result = {}
    for make in (commands, plan_keys, platform_files, models, machines, frameworks, constants, named_lists):
        made = make(program, root)
        short = [name for name, text in made.items() if "| --- |" not in text]
        if short:
            raise SystemExit(f"docs/site/reference.py: {make.__name__} found nothing for {', '.join(short)}; has its source another form now?")
        result.update(made)
    return result
