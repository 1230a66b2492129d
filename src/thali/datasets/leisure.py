"""Answers to a made-up survey about spare time, whose interests are known.

A person has up to three interests, and has done most of what belongs to them. Some people say yes
more easily than others, some things are done by nearly everybody, and some answers are missing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

INTERESTS = {
    "garden": "grew vegetables, pruned a tree, kept compost, saw a garden show, fed birds, "
    "made jam",
    "outdoors": "hiked, camped, read a map, swam in a lake, climbed, fed birds, slept in a hut",
    "stage": "saw a play, heard a concert, sang in a choir, played an instrument, saw a museum, "
    "bought a season ticket",
    "workshop": "built furniture, repaired a bicycle, soldered, sewed clothes, painted a wall, "
    "borrowed tools",
    "club": "led a meeting, coached children, collected money, organised a fair, painted a wall, "
    "wrote a newsletter",
    "games": "played chess, played cards, went to a quiz, painted figures, bought a board game, "
    "played online",
}
EVERYBODY = ["cooked for guests", "rode a bus", "used a library", "watched the news"]
SHARE = [0.30, 0.22, 0.24, 0.20, 0.18, 0.22]
N_PEOPLE, UNANSWERED, SEED = 160, 0.06, 11
RARE, COMMON, JUMP = -3.2, 1.2, 4.8  # log odds of a yes: outside interests, and what one adds
OF_PEOPLE, OF_QUESTIONS = 0.8, 0.5  # standard deviations of the log odds


def make() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the answers (NaN if there is none), people x interests, interests x questions."""
    rng = np.random.default_rng(SEED)
    asked = {question for part in INTERESTS.values() for question in part.split(", ")}
    questions = sorted(asked | {*EVERYBODY})
    holds = np.array([[q in part.split(", ") for q in questions] for part in INTERESTS.values()])
    has = rng.random((N_PEOPLE, len(INTERESTS))) < SHARE
    has &= np.cumsum(has, axis=1) <= 3
    base = np.where(np.isin(questions, EVERYBODY), COMMON, RARE)
    log_odds = rng.normal(0.0, OF_PEOPLE, (N_PEOPLE, 1)) + base
    log_odds = log_odds + rng.normal(0.0, OF_QUESTIONS, len(questions)) + JUMP * (has @ holds)
    answers = (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(float)
    answers[rng.random(answers.shape) < UNANSWERED] = np.nan
    people = pd.Index([f"person {number}" for number in range(1, N_PEOPLE + 1)], name="person")
    return (
        pd.DataFrame(answers, people, pd.Index(questions, name="question")),
        pd.DataFrame(has, people, list(INTERESTS)),
        pd.DataFrame(holds, list(INTERESTS), questions),
    )
