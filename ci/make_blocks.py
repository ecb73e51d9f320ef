"""Make the picture of docs/howto/blocks.md: python ci/make_blocks.py."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "blocks.svg"

SIDE, COLUMNS, ROWS = 48, 6, 5
"""The pixels of a stored chunk, and the numbers of chunks."""

BLOCK = (2, 1, 4, 3)
"""The chunks of the block: first column and row, and those after the last."""

DEPTH = 14
"""The pixels of the halo."""

STYLE = """text{fill:#1f2328}.f{fill:#57606a}.c{fill:none;stroke:#8c959f}
.r{fill:#d7e6f7;stroke:#8c959f}.h{fill:#f2b84b;fill-opacity:.55;stroke:#b7791f;stroke-width:1.6}
.b{fill:#3b6ea5;stroke:#1d4670;stroke-width:1.6}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.f{fill:#9da7b1}.c{stroke:#57606a}
.r{fill:#24384e;stroke:#57606a}.h{stroke:#f2b84b}.b{fill:#7fb0e0;stroke:#c3dcf5}}"""

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 280" \
font-family="system-ui, sans-serif" font-size="14">"""

LEGEND = (
    ("b", "a block: 2 x 2 whole chunks", "one task computes and stores it"),
    ("h", "its halo: depth samples on each side", "read, given to the function, trimmed"),
    ("r", "the 16 stored chunks that the task reads", "4 of the block and 12 around it"),
    ("c", "other stored chunks", "not read by this task"),
)


def rectangle(name: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle of a class of the style sheet."""
    return f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def picture() -> str:
    """Return the picture as SVG."""
    left, top, right, bottom = BLOCK
    margin = 20
    lines = [HEAD, f"<style>{STYLE}</style>"]
    for row in range(ROWS):
        for column in range(COLUMNS):
            is_read = left - 1 <= column <= right and top - 1 <= row <= bottom
            where = margin + column * SIDE, margin + row * SIDE
            lines.append(rectangle("r" if is_read else "c", *where, SIDE, SIDE))
    x, y = margin + left * SIDE, margin + top * SIDE
    width, height = (right - left) * SIDE, (bottom - top) * SIDE
    halo = (x - DEPTH, y - DEPTH, width + 2 * DEPTH, height + 2 * DEPTH)
    lines += [rectangle("h", *halo), rectangle("b", x, y, width, height)]
    for number, (name, first, second) in enumerate(LEGEND):
        y = margin + 8 + number * 60
        lines.append(rectangle(name, 350, y, 26, 26))
        lines.append(f'<text x="390" y="{y + 11}">{first}</text>')
        lines.append(f'<text class="f" x="390" y="{y + 31}">{second}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(picture(), "utf-8")
    print(TARGET)
