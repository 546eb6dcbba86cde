"""Lines of what benchmarks/longform.py measured: time and memory over length."""

from pathlib import Path

from matplotlib.figure import Figure


def draw(report: dict, path: Path) -> None:
    """Draws each model as a line, with a cross where it failed."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, (key, unit, title) in zip(
        panels,
        (
            ("computing_seconds", 1, "computing time (s)"),
            ("peak_bytes", 2**30, "peak resident memory (GiB)"),
        ),
        strict=True,
    ):
        for model in dict.fromkeys(row["model"] for row in report["rows"]):
            own = [row for row in report["rows"] if row["model"] == model]
            done = [row for row in own if "failed" not in row]
            lengths = [row["minutes"] for row in done]
            values = [row[key] / unit for row in done]
            (line,) = axes.plot(lengths, values, marker="o", label=model)
            if len(done) < len(own):
                # at the upper edge, as there is no value
                place, at = (own[-1]["minutes"], 0.97), axes.get_xaxis_transform()
                style = {"markersize": 9, "color": line.get_color(), "transform": at}
                axes.plot(*place, marker="x", **style)
                axes.annotate(" failed", place, xycoords=at, fontsize=8, va="center")
        axes.set_xscale("log")
        if unit == 1:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        ticks = sorted({row["minutes"] for row in report["rows"]})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("length of the recording (min)")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    where = f"{report['threads']} threads of {report['processor']}"
    figure.suptitle(f"CTC greedy, one pass, {where}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
