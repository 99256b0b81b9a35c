"""phi of one node, compiled; scheduler.core.fill says what it is."""

import numpy as np

from scheduler.core.fast.kept import njit

WHOLE = 1_000
KEY = 5  # 64-bit words: CPU and memory, and up to 16 cards of 16 bits
SLOTS = 1 << 17  # of the table of what is known; emptied when it is three quarters full
PROBES = 16


@njit(cache=True)
def sort_cards(cards):
    for i in range(1, len(cards)):
        card, j = cards[i], i - 1
        while j >= 0 and cards[j] > card:
            cards[j + 1] = cards[j]
            j -= 1
        cards[j + 1] = card


@njit(cache=True)
def can_ever(kind, cpu, ram, cards, first, need, accepts):
    """Return whether the node as it stands has room for one of this kind."""
    if cpu < need[kind, 2] or ram < need[kind, 3]:
        return False
    found, count = 0, need[kind, 0]
    for g in range(first, len(cards)):
        if found >= count:
            break
        found += cards[g] >> 8 >= need[kind, 1] and accepts[kind, (cards[g] & 255) - 1]
    return found >= count


@njit(cache=True)
def pack(cpu, ram, cards, drawn, need, accepts):
    """Return the idle thousandths after every sequence. ``need``: kinds by (count, milli, …)."""
    sequences, length = drawn.shape
    free = np.empty(len(cards), dtype=np.int64)
    # A sequence only takes: what has no room at first never has. 0: not asked yet, 1: yes, 2: no.
    room_for = np.zeros(need.shape[0], dtype=np.int8)
    first = 0  # cards are sorted, those without anything left come first
    while first < len(cards) and cards[first] == 0:
        first += 1
    idle = 0
    for s in range(sequences):
        cpu_left, ram_left = cpu, ram
        for g in range(first, len(cards)):
            free[g] = cards[g] >> 8
        for k in range(length):
            kind = drawn[s, k]
            if room_for[kind] == 0:
                can = can_ever(kind, cpu, ram, cards, first, need, accepts)
                room_for[kind] = 1 if can else 2
            if room_for[kind] == 2:
                continue
            count, milli = need[kind, 0], need[kind, 1]
            if cpu_left < need[kind, 2] or ram_left < need[kind, 3]:
                continue
            if count == 1:
                best, least = -1, WHOLE + 1
                for g in range(first, len(cards)):
                    if milli <= free[g] < least and accepts[kind, (cards[g] & 255) - 1]:
                        best, least = g, free[g]
                if best < 0:
                    continue
                free[best] -= milli
            elif count > 1:
                found = 0
                for g in range(first, len(cards)):
                    if free[g] >= milli and accepts[kind, (cards[g] & 255) - 1]:
                        found += 1
                if found < count:
                    continue
                found = 0
                for g in range(first, len(cards)):
                    if free[g] >= milli and accepts[kind, (cards[g] & 255) - 1]:
                        free[g] -= milli
                        found += 1
                        if found == count:
                            break
            cpu_left -= need[kind, 2]
            ram_left -= need[kind, 3]
        for g in range(first, len(cards)):
            idle += free[g]
    return idle


@njit(cache=True)
def phi(
    cpu, ram, usable, model, stuck, cards, key, drawn, need, accepts, most, table, known, filled
):
    """
    Return phi of one node. ``table``, ``known``, ``filled``: the memory; ``cards``, ``key``:
    scratch.
    """
    for g in range(len(usable)):
        cards[g] = (usable[g] << 8 | model[g] + 1) if usable[g] > 0 else 0
    sort_cards(cards)
    cpu, ram = min(cpu, most[0]), min(ram, most[1])
    key[:] = 0
    key[0] = cpu << 32 | ram
    for g in range(len(cards)):
        # Usable is at most 1000 (10 bits), a model's number at most 62 (6 bits).
        key[1 + (g >> 2)] |= ((cards[g] >> 8) << 6 | (cards[g] & 63)) << 16 * (g & 3)
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for word in range(KEY):
        mixed = (mixed ^ np.uint64(key[word])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    at = np.int64(mixed & np.uint64(SLOTS - 1))
    sequences = drawn.shape[0]
    for _ in range(PROBES):
        if known[at] < 0:
            break
        is_equal = True
        for word in range(KEY):
            if table[at, word] != key[word]:
                is_equal = False
                break
        if is_equal:
            return stuck * sequences + known[at]
        at = (at + 1) & (SLOTS - 1)
    idle = pack(cpu, ram, cards, drawn, need, accepts)
    if filled[0] * 4 > SLOTS * 3 or known[at] >= 0:
        known[:] = -1
        filled[0] = 0
    for word in range(KEY):
        table[at, word] = key[word]
    known[at] = idle
    filled[0] += 1
    return stuck * sequences + idle
