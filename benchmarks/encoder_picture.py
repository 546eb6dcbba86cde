"""Bars of what benchmarks/encoder.py measured: speed and memory, beside the base."""

from pathlib import Path

from matplotlib.figure import Figure


def draw(report: dict, path: Path) -> None:
    """Draws each case as a group of bars, one for each encoder."""
    rows = report["rows"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    width = 0.8 / len(names)
    for axes, key, title in zip(
        panels,
        ("ratio", "mib"),
        (f"speed, {names[0]} = 1", "peak memory (MiB)"),
        strict=True,
    ):
        for number, name in enumerate(names):
            values = [row[key] for row in rows if row["name"] == name]
            places = [
                i + (number - (len(names) - 1) / 2) * width for i in range(len(cases))
            ]
            bars = axes.bar(places, values, width * 0.95, label=name)
            axes.bar_label(bars, fmt=digits, fontsize=7)
        axes.set_xticks(range(len(cases)), cases)
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].set_yscale("log")
    panels[0].legend(fontsize=8, frameon=False)
    what = "training" if report["train"] else "inference"
    where = report.get("card", report["processor"])
    figure.suptitle(f"{what}, {report['dtype']}, {where}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
