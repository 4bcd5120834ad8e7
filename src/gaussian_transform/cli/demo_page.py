"""The demonstration's page: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import html
import textwrap
from collections.abc import Sequence

from gaussian_transform._version import __version__
from gaussian_transform.cli.demo_sections import Section

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 4rem 1.5rem 5rem; }
h1 { font-size: 2.4rem; line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 1rem; }
h2 { font-size: 1.5rem; line-height: 1.25; letter-spacing: -0.01em; margin: 0 0 .6rem; }
p { max-width: 42rem; margin: 0 0 1rem; }
.lead { font-size: 1.2rem; line-height: 1.5; color: var(--soft); }
section { margin-top: 3.5rem; padding-top: 2.5rem; border-top: 1px solid var(--line); }
figure { margin: 1.5rem 0; }
img { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .5rem; }
table { border-collapse: collapse; font-size: .95rem; font-variant-numeric: tabular-nums; margin: 1.25rem 0; }
th, td { padding: .4rem 1.6rem .4rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; color: var(--soft); }
pre { background: #f5f7fa; border-radius: 6px; padding: 1rem 1.2rem; margin: 1.25rem 0 0; overflow-x: auto;
  font: .86rem/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { margin-top: 4rem; padding-top: 1.5rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .88rem; }
@media (max-width: 40rem) { main { padding-top: 2rem; } h1 { font-size: 1.9rem; } th, td { padding-right: .8rem; } }
"""


_TITLE = "Structure in noisy data, by its local shape"
_LEAD = """
The Gaussian transform on data that blur together otherwise: blobs joined by a chain, lines that meet, curves in noise.
Everything on this page was computed and measured on this machine just now.
"""
_FOOTER = """
Agreement with the truth is the adjusted Rand index: 1 for the same clusters, 0 for what chance gives. Times are without
the compilation of the kernels, which happens once. Colours are Okabe and Ito's. The method is that of Kun Jin, Facundo
Mémoli and Zhengchao Wan, <cite>The Gaussian Transform</cite>, arXiv:2006.11698.
"""


def render(sections: Sequence[Section], seconds: float) -> str:
    """Return the page with all pictures inside it."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_TITLE}</title><style>{_STYLE}</style></head><body><main>",
        f'<h1>{_TITLE}</h1><p class="lead">{_LEAD}</p>',
        *(_section(section) for section in sections),
        f"<footer><p>{_FOOTER}</p><p>gaussian-transform {__version__}; computing and drawing took {seconds:.1f} s.</p>",
        "</footer></main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _section(section: Section) -> str:
    picture = base64.b64encode(section.picture).decode("ascii")
    caption = html.escape(section.caption)
    return "\n".join(
        [
            f'<section id="{section.name}"><h2>{html.escape(section.title)}</h2>',
            f"<p>{html.escape(textwrap.dedent(section.text).strip())}</p>",
            f'<figure><img src="data:image/png;base64,{picture}" alt="{caption}">',
            f"<figcaption>{caption}</figcaption></figure>",
            _table(section.measured),
            f"<pre><code>{html.escape(textwrap.dedent(section.code).strip())}</code></pre></section>",
        ]
    )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows[1:])
    return f"<table><thead>{line(rows[0], 'th')}</thead><tbody>{body}</tbody></table>"
