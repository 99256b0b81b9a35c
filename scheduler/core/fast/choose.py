"""One decision over all nodes, compiled; see scheduler.core.board, guard and scarcity."""

import numpy as np
from numba import njit

from scheduler.core.board import REFUSED
from scheduler.core.fast.rate import FGDX, rate, see, take_share, take_whole
from scheduler.core.guard import HARD

WHOLE = 1_000
LOST_BITS = 4  # of a count of slots of one class that a node loses


@njit(cache=True)
def slots_of(c, cpu, ram, usable, model, guard):
    """Return how many jobs of class c fit together on a node."""
    cards = 0
    for g in range(len(usable)):
        cards += usable[g] == WHOLE and guard.accepts[c, model[g]]
    return min(cards // guard.need[c, 0], cpu // guard.need[c, 2], ram // guard.need[c, 3])


@njit(cache=True)
def lost_slots(n, column, kind, room, guard, before, after):
    """Return what a request would take of the node's slots, four bits a class."""
    stuck = see(n, room, before)
    for g in range(len(before)):
        after[g] = before[g]
    if kind.is_share:
        take_share(column, kind, after, stuck)
    else:
        take_whole(n, column, kind.cards, room, after)
    lost = np.int64(0)
    for c in range(guard.need.shape[0]):
        have = slots_of(c, room.cpu[n], room.ram[n], before, room.model[n], guard)
        if have:
            cpu, ram = room.cpu[n] - kind.cpu, room.ram[n] - kind.ram
            gone = have - slots_of(c, cpu, ram, after, room.model[n], guard)
            lost |= np.int64(gone) << LOST_BITS * c
    return lost


@njit(cache=True)
def catch_up(rows, room, guard, fleet, usable):
    """Count slots and idle cards of these nodes again."""
    for i in range(len(rows)):
        n = rows[i]
        see(n, room, usable)
        for c in range(guard.need.shape[0]):
            now = slots_of(c, room.cpu[n], room.ram[n], usable, room.model[n], guard)
            fleet.slots[c] += now - fleet.node_slots[c, n]
            fleet.node_slots[c, n] = now
        for g in range(len(usable)):
            fleet.idle[room.model[n, g]] += usable[g] - fleet.node_idle[n, g]
            fleet.node_idle[n, g] = usable[g]


@njit(cache=True)
def slot_prices(sheet, guard, fleet, idle, out):
    """Write the price of one slot of each class; return whether any costs something."""
    is_any = False
    for c in range(guard.need.shape[0]):
        out[c] = 0
        if not sheet.pays[c]:
            continue
        have, count = fleet.slots[c], guard.need[c, 0]
        need = idle * guard.demand[c] * (1_000 + guard.slack) // guard.total + guard.spare
        if have <= -(-need // 1_000):
            out[c] = HARD * count
        else:
            ratio = need // have
            out[c] = guard.weight * count * ratio * ratio // (guard.step * 1_000_000)
        is_any |= out[c] != 0
    return is_any


@njit(cache=True)
def model_prices(sheet, kind, scarce, fleet, idle, out):
    """Write the price of each model's card; return whether any costs something."""
    is_any = False
    out[:] = 0
    milli = kind.cards * kind.milli
    for s in range(scarce.members.shape[0]):
        if not sheet.can_leave[s]:
            continue
        have = 0
        for m in range(len(out)):
            if scarce.members[s, m]:
                have += fleet.idle[m]
        need = idle * scarce.demand[s] * (1_000 + scarce.slack) // (scarce.total * 1_000)
        if need >= have:
            price = HARD // 1_000 * milli // scarce.step
        else:
            ratio = 1_000 * need // have
            fourth = (ratio * ratio // 1_000) ** 2 // 1_000
            price = scarce.weight * milli * fourth // (scarce.step * 1_000_000)
        is_any |= price != 0
        for m in range(len(out)):
            if scarce.members[s, m]:
                out[m] += price
    return is_any


@njit(cache=True)
def choose(rows, kind, room, sieve, sheet, code, fgd, fill, guard, scarce, fleet, scratch):
    """Return the row of the best node, -1 for none. ``rows``: what has moved since the last."""
    idle, has_prices, has_model_prices = 0, False, False
    if code == FGDX:
        catch_up(rows, room, guard, fleet, scratch.usable)
        for m in range(len(fleet.idle)):
            idle += fleet.idle[m]
        has_prices = slot_prices(sheet, guard, fleet, idle, scratch.slots)
        if kind.cards:
            has_model_prices = model_prices(sheet, kind, scarce, fleet, idle, scratch.models)
    best, best_worth = -1, np.int64(REFUSED)
    for n in range(len(room.cpu)):
        if sheet.stamp[n] != room.stamp[n]:
            score, column = rate(
                n, kind, room, sieve, code, fgd, fill, scratch.cards, scratch.usable
            )
            sheet.score[n], sheet.column[n] = score, column
            sheet.stamp[n] = room.stamp[n]
            if code == FGDX and score != REFUSED:
                sheet.lost[n] = lost_slots(
                    n, column, kind, room, guard, scratch.usable, scratch.after
                )
        worth = sheet.score[n]
        if worth == REFUSED:
            continue
        if has_prices and sheet.lost[n]:
            lost, c = sheet.lost[n], 0
            while lost:
                worth -= (lost & 15) * scratch.slots[c]
                lost >>= LOST_BITS
                c += 1
        if has_model_prices:
            worth -= scratch.models[room.model[n, sheet.column[n]]]
        if worth > best_worth:
            best, best_worth = n, worth
    return best
