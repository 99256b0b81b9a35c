"""One decision over all nodes, compiled; see scheduler.core.board, guard and scarcity."""

import numpy as np

from scheduler.core.board import REFUSED
from scheduler.core.fast.kept import njit
from scheduler.core.fast.rate import FGDX, open_cards, rate, see, take_share, take_whole, write_set
from scheduler.core.guard import HARD

WHOLE = 1_000
BLOCK = 64  # nodes, of which the best is known
LOST_BITS = 4  # of a count of slots of one class that a node loses


@njit(cache=True)
def slots_of(c, cpu, ram, usable, model, guard):
    """Return how many jobs of class c fit together on a node."""
    cards = 0
    for g in range(len(usable)):
        cards += usable[g] == WHOLE and guard.accepts[c, model[g]]
    return min(cards // guard.need[c, 0], cpu // guard.need[c, 2], ram // guard.need[c, 3])


@njit(cache=True)
def lost_slots(n, column, kind, room, guard, fleet, after):
    """Return what a request would take of the node's slots, four bits a class."""
    lost, is_taken = np.int64(0), False
    for c in range(guard.need.shape[0]):
        have = fleet.node_slots[c, n]
        if have == 0:
            continue
        if not is_taken:
            stuck = see(n, room, after)
            if kind.is_share:
                take_share(column, kind, after, stuck)
            else:
                take_whole(n, column, kind.cards, room, after)
            is_taken = True
        cpu, ram = room.cpu[n] - kind.cpu, room.ram[n] - kind.ram
        gone = have - slots_of(c, cpu, ram, after, room.model[n], guard)
        lost |= np.int64(gone) << LOST_BITS * c
    return lost


@njit(cache=True)
def catch_up(rows, room, code, guard, fleet, usable):
    """Count what there is on these nodes again: the most of one card, slots, idle cards."""
    for i in range(len(rows)):
        n = rows[i]
        fleet.top[n] = room.free[n].max()
        if code != FGDX:
            continue
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
def price_of(lost, slots):
    """Return what these slots, four bits a class, are worth."""
    price, c = np.int64(0), 0
    while lost:
        price += (lost & 15) * slots[c]
        lost >>= LOST_BITS
        c += 1
    return price


@njit(cache=True)
def note_score(n, score, scores, best):
    """Write a node's score, and keep the best of its block right."""
    was, block = scores[n], n // BLOCK
    scores[n] = score
    if score >= best[block]:
        best[block] = score
    elif was == best[block]:
        best[block] = scores[block * BLOCK : (block + 1) * BLOCK].max()


@njit(cache=True)
def choose(
    log, fresh, seen, kind, room, sieve, sheet, code, fgd, fill, guard, scarce, fleet, scratch
):
    """
    Return the row of the best node, -1 for none. Of several whole cards the columns are in
    ``scratch.columns``.

    ``log``: every row, then those that have moved; from ``fresh`` on since the last decision,
    from ``seen`` on since the last for this kind.
    """
    catch_up(log[fresh:], room, code, guard, fleet, scratch.usable)
    for at in range(seen, len(log)):
        n = log[at]
        if sheet.stamp[n] == room.stamp[n]:
            continue
        score, column = np.int64(REFUSED), 0
        # Most of those that have moved are full. Calls are dear: they copy all these arrays.
        if kind.cards == 0 or fleet.top[n] >= kind.milli:
            score, column = rate(
                n, kind, room, sieve, code, fgd, fill, scratch.cards, scratch.usable, scratch.rated
            )
        note_score(n, score, sheet.score, sheet.best)
        sheet.column[n], sheet.stamp[n] = column, room.stamp[n]
        if code == FGDX and score != REFUSED:
            sheet.lost[n] = 0
            if fleet.node_slots[:, n].any():
                sheet.lost[n] = lost_slots(n, column, kind, room, guard, fleet, scratch.after)
    idle, has_prices, has_model_prices = 0, False, False
    if code == FGDX:
        for m in range(len(fleet.idle)):
            idle += fleet.idle[m]
        has_prices = slot_prices(sheet, guard, fleet, idle, scratch.slots)
        if kind.cards:
            has_model_prices = model_prices(sheet, kind, scarce, fleet, idle, scratch.models)
    best, best_worth = -1, np.int64(REFUSED)
    lost, price = np.int64(0), np.int64(0)
    for block in range(len(sheet.best)):
        if sheet.best[block] <= best_worth:  # prices only lower what a node is worth
            continue
        for n in range(block * BLOCK, min((block + 1) * BLOCK, len(room.cpu))):
            worth = sheet.score[n]
            if worth <= best_worth:
                continue
            if has_prices:
                if sheet.lost[n] != lost:  # nodes side by side often lose the same
                    lost = sheet.lost[n]
                    price = price_of(lost, scratch.slots)
                worth -= price
            if has_model_prices:
                worth -= scratch.models[room.model[n, sheet.column[n]]]
            if worth > best_worth:
                best, best_worth = n, worth
    if best >= 0 and kind.cards > 1 and not kind.is_share:
        open_cards(best, kind, room, sieve, scratch.cards)
        write_set(best, kind.cards, room, scratch.cards, scratch.rated, scratch.columns)
    return best
