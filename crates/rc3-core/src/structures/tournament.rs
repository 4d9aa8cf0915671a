//! The earliest of many changing times.

/// A time for each of many players, in a tournament tree: below node `n` are `2n` and `2n + 1`, the leaves are the
/// players, and every other node has the earlier time of the two below. Times change with every packet, mostly without
/// a new winner, so updates seldom reach the root.
#[derive(Debug, Clone)]
pub struct Tournament<T> {
    /// The root is at 1.
    tree: Vec<T>,
    never: T,
}

impl<T: Copy + Ord> Tournament<T> {
    /// No player has a time; `never` sorts last.
    pub fn new(never: T) -> Self {
        Self { tree: vec![never; 2], never }
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    /// Grows to this many players.
    pub fn make_room(&mut self, players: usize) {
        let before = self.leaves();
        if players <= before {
            return;
        }
        let times = self.tree.split_off(before);
        self.tree = vec![self.never; 2 * players.next_power_of_two()];
        for (player, at) in times.into_iter().enumerate() {
            self.set(player, at);
        }
    }

    /// Sets the time of a player.
    ///
    /// # Panics
    /// Without room for the player.
    pub fn set(&mut self, player: usize, at: T) {
        let mut node = self.leaves() + player;
        self.tree[node] = at;
        while node > 1 {
            node /= 2;
            let earlier = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == earlier {
                break;
            }
            self.tree[node] = earlier;
        }
    }

    /// The earliest time.
    pub fn first(&self) -> T {
        self.tree[1]
    }

    /// The player with that time, the first among equals. Any player if all are never.
    pub fn winner(&self) -> usize {
        let at = self.first();
        let mut node = 1;
        while node < self.leaves() {
            node = 2 * node + usize::from(self.tree[2 * node] != at);
        }
        node - self.leaves()
    }

    /// As [`Self::winner`]; its time is cleared.
    pub fn pop(&mut self) -> usize {
        let player = self.winner();
        self.set(player, self.never);
        player
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: u64 = u64::MAX;

    proptest! {
        #[test]
        fn all_times_come_in_order(times in prop::collection::vec(0..20_u64, 1..40)) {
            let mut tournament = Tournament::new(NEVER);
            for (player, &at) in times.iter().enumerate() {
                tournament.make_room(player + 1);
                tournament.set(player, at);
            }
            let mut expected: Vec<_> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            for expected in expected {
                prop_assert_eq!((tournament.first(), tournament.pop()), expected);
            }
            prop_assert_eq!(tournament.first(), NEVER);
        }
    }
}
