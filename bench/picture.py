"""What the benchmark of channels found, as a picture."""

import statistics

from matplotlib.figure import Figure

COLOURS = {"copy": "#666666", "at-least-once": "#e69f00", "exactly-once": "#0072b2"}


def draw(found, path):
    """Throughput by topic (medians, with the spread) and the seconds to the next delivery."""
    picture = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    rates(left, found["throughput"])
    starts = found["start"]
    right.bar(list(starts), [statistics.median(each) for each in starts.values()], color="#009e73")
    right.set_title("to the next delivery")
    right.set_ylabel("s")
    picture.savefig(path, dpi=110, metadata={"Software": None})


def rates(axes, throughput):
    topics = list(dict.fromkeys(name.split()[0] for name in throughput))
    for name, one in throughput.items():
        topic, kind = name.split()
        read = [run["read"] / 1000 for run in one["runs"]]
        middle = statistics.median(read)
        axes.bar(
            topics.index(topic) + 0.27 * (list(COLOURS).index(kind) - 1),
            middle,
            0.25,
            yerr=[[middle - min(read)], [max(read) - middle]],
            color=COLOURS[kind],
            label=kind if topic == topics[0] else None,
        )
    axes.set_xticks(range(len(topics)), topics, rotation=15)
    axes.set_ylabel("1,000 records read/s")
    axes.set_title("after the first quarter")
    if topics:
        axes.legend()
