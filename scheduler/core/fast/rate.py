"""Rating one node, compiled; scheduler.core.fits, sets, board and policies say what it is."""

import numpy as np

from scheduler.core.board import LINKED, MOST_MEMORY, REFUSED, TIER
from scheduler.core.fast.fill import phi
from scheduler.core.fast.kept import njit
from scheduler.core.inventory import IDLE, MODE_CODES

WHOLE = 1_000
SHARED = MODE_CODES["share_shared"]
FIRST_FIT, BEST_FIT, FGD, FGDX = 0, 1, 2, 3


@njit(cache=True)
def open_cards(n, kind, room, sieve, out):
    """Mark in ``out`` the cards of node n that could be given; return whether the node fits."""
    if sieve.fixed[n] >= 0 or room.is_held[n]:
        return False
    if room.cpu[n] < kind.cpu or room.ram[n] < kind.ram or room.disk[n] < kind.disk:
        return False
    if kind.cards == 0:
        return True
    found = 0
    for g in range(room.free.shape[1]):
        out[g] = False
        if not sieve.cards[n, g]:
            continue
        mode = room.mode[n, g]
        if not kind.is_share:
            out[g] = mode == IDLE and room.memory[n, g] >= kind.vram
        elif room.free[n, g] >= kind.milli and room.vram[n, g] >= kind.vram:
            is_open = mode == IDLE
            if mode == kind.mode:
                if mode == SHARED:
                    is_open = room.tile[n, g] == kind.width and (
                        kind.width == 0 or room.tile_vram[n, g] == kind.vram
                    )
                else:
                    is_open = room.tenant[n, g] == kind.tenant
            out[g] = is_open and (kind.width == 0 or sieve.starts[room.taken[n, g]] >= 0)
        found += out[g]
    if found < kind.cards:
        return False
    if not room.is_mixed or kind.cards == 1:
        return True
    for g in range(room.free.shape[1]):
        same = 0
        for h in range(room.free.shape[1]):
            same += out[h] and room.model[n, h] == room.model[n, g]
        if out[g] and same >= kind.cards:
            return True
    return False


@njit(cache=True)
def best_set(n, count, room, out):
    """Return (first column, is_linked, spare, idle) of the node's best set of whole cards."""
    cards = room.free.shape[1]
    best, best_key = 0, (False, np.int64(0), np.int64(0), np.int64(0))
    is_linked_anywhere = False
    for step in range(2):  # inside one group if any group can
        for g in range(cards):
            if not out[g]:
                continue
            in_model = in_group = 0
            for h in range(cards):
                if out[h] and room.model[n, h] == room.model[n, g]:
                    in_model += 1
                    in_group += room.link[n, h] == room.link[n, g]
            spare = in_group if step == 0 else in_model
            if spare < count:
                continue
            key = (True, room.memory[n, g], np.int64(spare), np.int64(in_model))
            if not best_key[0] or key[1:] < best_key[1:]:
                best, best_key = g, key
        if best_key[0]:
            is_linked_anywhere = step == 0
            break
    return best, is_linked_anywhere, best_key[2], best_key[3]


@njit(cache=True)
def write_set(n, count, room, out, marks, columns):
    """Write the columns of the node's best set, as scheduler.core.sets.columns_of has them."""
    cards = room.free.shape[1]
    first, is_linked, _, _ = best_set(n, count, room, out)
    for g in range(cards):  # how many could be taken of the card's group; 0: not this card
        marks[g] = 0
        if not out[g] or room.model[n, g] != room.model[n, first]:
            continue
        if is_linked:
            marks[g] = 1 if room.link[n, g] == room.link[n, first] else 0
            continue
        for h in range(cards):
            same = out[h] and room.model[n, h] == room.model[n, first]
            marks[g] += same and room.link[n, h] == room.link[n, g]
    for _ in range(count):  # the smallest groups are broken first
        best = -1
        for g in range(cards):
            if marks[g] > 0 and (best < 0 or marks[g] < marks[best]):
                best = g
        marks[best] = -1
    found = 0
    for g in range(cards):
        if marks[g] < 0:
            columns[found] = g
            found += 1


@njit(cache=True)
def fullness(g, mode, link, free, vram):
    """Return how little a share should like card g of a node; see scheduler.core.board."""
    in_group = 0
    for h in range(len(mode)):
        in_group += mode[h] == IDLE and link[h] == link[g]
    is_idle = np.int64(mode[g] == IDLE)
    return (is_idle << 36) + (free[g] << 26) + (vram[g] << 5) + in_group


@njit(cache=True)
def see(n, room, usable):
    """Write what of each card the expected could use into ``usable``; return what is stuck."""
    stuck = 0
    for g in range(len(usable)):
        free = room.free[n, g] if room.is_healthy[n, g] else 0
        mode = room.mode[n, g]
        is_loose = mode == SHARED and room.tile[n, g] == 0
        usable[g] = free if mode == IDLE or is_loose else 0
        stuck += free - usable[g]
    return stuck


@njit(cache=True)
def take_whole(n, first, count, room, usable):
    """Take ``count`` idle cards of the model of card ``first`` out of ``usable``."""
    taken = 0
    for g in range(len(usable)):
        if taken == count:
            break
        if usable[g] == WHOLE and room.model[n, g] == room.model[n, first]:
            usable[g] = 0
            taken += 1


@njit(cache=True)
def take_share(g, kind, usable, stuck):
    """Cut a share from card ``g`` of ``usable``; return what is stuck then."""
    if kind.width == 0:
        usable[g] -= kind.milli
        return stuck
    stuck += usable[g] - kind.milli
    usable[g] = 0
    return stuck


@njit(cache=True)
def fragments(cpu, ram, free, model, fgd):
    """Return the thousandths that are fragments to the typical kinds, weighted by them."""
    wasted = 0
    for t in range(len(fgd.weight)):
        whole = useful = found = 0
        for g in range(len(free)):
            whole += free[g]
            if fgd.accepts[t, model[g]] and free[g] >= fgd.need[t, 1]:
                useful += free[g]
                found += 1
        fits = fgd.need[t, 0] > 0 and found >= fgd.need[t, 0]
        if fits and cpu >= fgd.need[t, 2] and ram >= fgd.need[t, 3]:
            whole -= useful
        wasted += fgd.weight[t] * whole
    return wasted


@njit(cache=True)
def phi_of(cpu, ram, usable, model, stuck, fill):
    return phi(
        cpu,
        ram,
        usable,
        model,
        stuck,
        fill.cards,
        fill.key,
        fill.drawn,
        fill.need,
        fill.accepts,
        fill.most,
        fill.table,
        fill.known,
        fill.filled,
    )


@njit(cache=True)
def rate_before(n, room, code, fgd, fill, usable):
    """Return what the policy compares with: of node n as it is."""
    if code == FGDX:  # the same for every kind, until the node moves
        if fill.stamp[n] != room.stamp[n]:
            stuck = see(n, room, usable)
            fill.now[n] = phi_of(room.cpu[n], room.ram[n], usable, room.model[n], stuck, fill)
            fill.stamp[n] = room.stamp[n]
        return fill.now[n]
    if code == FGD:
        for g in range(len(usable)):
            usable[g] = room.free[n, g]
        return fragments(room.cpu[n], room.ram[n], usable, room.model[n], fgd)
    return 0


@njit(cache=True)
def rate_after(n, first, kind, room, code, fgd, fill, usable, before):
    """Return the policy's rating of node n for what is taken at card ``first``."""
    cpu, ram = room.cpu[n] - kind.cpu, room.ram[n] - kind.ram
    if code == FGDX:
        stuck = see(n, room, usable)
        if kind.is_share:
            stuck = take_share(first, kind, usable, stuck)
        else:
            take_whole(n, first, kind.cards, room, usable)
        after = phi_of(cpu, ram, usable, room.model[n], stuck, fill)
        return (before - after) // fill.step
    if code == FGD:
        for g in range(len(usable)):
            usable[g] = room.free[n, g]
        if kind.is_share:
            usable[first] -= kind.milli
        else:
            take_whole(n, first, kind.cards, room, usable)
        gain = before - fragments(cpu, ram, usable, room.model[n], fgd)
        return np.searchsorted(fgd.steps, gain, side="right")
    return 0


@njit(cache=True)
def first_alike(g, out, mode, free, model):
    """Return the first open card that is equal to card g for every policy: g itself, or before."""
    for h in range(g):
        if out[h] and free[h] == free[g] and model[h] == model[g] and mode[h] == mode[g]:
            return h
    return g


@njit(cache=True)
def rate(n, kind, room, sieve, code, fgd, fill, out, usable, rated):
    """Return (score, column) of node n; REFUSED where it does not fit. ``rated``: scratch."""
    if not open_cards(n, kind, room, sieve, out):
        return REFUSED, 0
    before = rate_before(n, room, code, fgd, fill, usable)
    if kind.cards == 0:
        return np.int64(rate_after(n, 0, kind, room, code, fgd, fill, usable, before)), 0
    if not kind.is_share:
        first, is_linked, spare, idle = best_set(n, kind.cards, room, out)
        tier = (LINKED if is_linked else 0) + MOST_MEMORY - room.memory[n, first]
        if code == BEST_FIT:
            gain = -(spare << 5 | idle)
        else:
            gain = rate_after(n, first, kind, room, code, fgd, fill, usable, before)
        return tier * TIER + gain, first
    # Rows, not the room: what is handed to a function is copied, and these are called often.
    mode, link, free = room.mode[n], room.link[n], room.free[n]
    vram, model, memory = room.vram[n], room.model[n], room.memory[n]
    best, column, full = np.int64(REFUSED), 0, np.int64(-1)
    for g in range(len(free)):
        if not out[g]:
            continue
        if code == BEST_FIT:
            rated[g] = -fullness(g, mode, link, free, vram)
        elif code == FIRST_FIT:
            rated[g] = 0
        else:
            alike = first_alike(g, out, mode, free, model)
            if alike < g:
                rated[g] = rated[alike]
            else:
                rated[g] = rate_after(n, g, kind, room, code, fgd, fill, usable, before)
        score = (MOST_MEMORY - memory[g]) * TIER + rated[g]
        if score > best:
            best, column, full = score, g, np.int64(-1)
        elif score == best:
            if full < 0:
                full = fullness(column, mode, link, free, vram)
            other = fullness(g, mode, link, free, vram)
            if other < full:
                column, full = g, other
    return best, column
