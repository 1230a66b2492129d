"""Pictures that pages draw, for their cards in the gallery."""  # noqa: INP001 - read by notebooks

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Any

from IPython.display import HTML
from myst_nb import glue


def keep(name: str, figure: Any, alt: str) -> None:
    """Keep a Matplotlib figure under a name, as an image with a text for those who cannot see it.

    The image is part of the gallery's page: MyST-NB takes no files over from one page to another.
    """
    file = BytesIO()
    figure.savefig(file, dpi=100)
    data = b64encode(file.getvalue()).decode()
    image = f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
    glue(name, HTML(image), display=False)
