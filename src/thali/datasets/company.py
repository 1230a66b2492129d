"""Users and permissions of a made-up company, whose roles are known.

A user has one role, two or three; a role is a list of permissions, some of which other roles have,
too. Six permissions belong to no role. Then 2% of the entries are flipped: permissions given by
hand, and forgotten ones.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

ROLES = {
    "developer": "code:read code:write code:review build:start build:read test:run ticket:open "
    "ticket:close wiki:write staging:deploy",
    "operator": "host:login host:restart log:read alert:mute alert:read build:read backup:start "
    "backup:restore production:deploy ticket:close",
    "analyst": "data:query data:export notebook:run dashboard:read dashboard:edit report:read "
    "report:write experiment:start wiki:write",
    "accountant": "invoice:read invoice:write invoice:approve ledger:read ledger:write tax:file "
    "payment:release expense:read report:read",
    "seller": "client:read client:write offer:send offer:read price:read contract:draft call:log "
    "invoice:read calendar:share",
    "recruiter": "candidate:read candidate:write interview:plan contract:draft salary:read "
    "staff:read staff:write holiday:approve calendar:share",
    "supporter": "client:read ticket:open ticket:close refund:propose chat:answer macro:edit "
    "call:log order:read order:change",
}
SHARE = {"developer": 28, "operator": 16, "analyst": 20, "accountant": 14}
SHARE |= {"seller": 22, "recruiter": 12, "supporter": 20}  # of users, in percent
NO_ROLE = ["audit:erase", "key:export", "legacy:login", "payroll:run", "root:use", "vault:open"]
FIRST = [
    "amira",
    "bruno",
    "chen",
    "dalia",
    "emeka",
    "farah",
    "goran",
    "hanna",
    "ines",
    "jorge",
    "kavita",
    "liam",
    "maya",
    "nadia",
    "oskar",
    "priya",
    "quentin",
    "rosa",
    "samir",
    "tara",
    "ulrich",
    "vera",
    "wanda",
    "xenia",
    "yusuf",
    "zoe",
    "adam",
    "bella",
    "cyrus",
    "dora",
]
N_USERS, ERRORS, SEED = 120, 0.02, 5


def make() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the table, and the truth: users x roles and roles x permissions."""
    rng = np.random.default_rng(SEED)
    letters = "bdfghklmnprstvw"
    users = sorted(
        f"{FIRST[i % len(FIRST)]}.{letters[(i // len(FIRST) * 4 + i) % len(letters)]}"
        for i in range(N_USERS)
    )
    permissions = sorted({name for names in ROLES.values() for name in names.split()} | {*NO_ROLE})
    allows = np.array([[p in names.split() for p in permissions] for names in ROLES.values()])
    chance = np.array([SHARE[role] for role in ROLES], float)
    has = np.zeros((N_USERS, len(ROLES)), bool)
    for user, n_roles in enumerate(rng.choice([1, 2, 3], N_USERS, p=[0.6, 0.3, 0.1])):
        has[user, rng.choice(len(ROLES), n_roles, replace=False, p=chance / chance.sum())] = True
    table = (has @ allows) ^ (rng.random((N_USERS, len(permissions))) < ERRORS)
    return (
        pd.DataFrame(table, pd.Index(users, name="user"), permissions).astype(int),
        pd.DataFrame(has, pd.Index(users, name="user"), list(ROLES)),
        pd.DataFrame(allows, list(ROLES), permissions),
    )
