"""`%agent skills`."""

from __future__ import annotations

import textwrap

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.plaintext import visible
from ipyagent.schema import Skill
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.tools.path_rules import SKILLS


def run(book: Notebook, rest: str) -> str:
    """the skills that the agent may read, yours and this folder's"""
    if rest:
        raise ConfigError("usage: %agent skills")
    skills = Skills(book.environment.workspace, personal_folder())
    lines = [_line(each, own=skills.is_own(each)) for each in skills.all()]
    if not lines:
        lines = [
            f"There are no skills. A skill is a folder with a SKILL.md, in {personal_folder()} "
            f"(for all your work) or in {SKILLS} (for this folder)."
        ]
    return visible("\n".join([*lines, *skills.notices()]))


def _line(skill: Skill, *, own: bool) -> str:
    allowed = "" if skill.allowed_tools is None else f"  [{', '.join(skill.allowed_tools)}]"
    about = textwrap.shorten(skill.description, 100, placeholder=" …")
    return f"{skill.name:<20} {'yours' if own else 'this folder':<12} {about}{allowed}"
