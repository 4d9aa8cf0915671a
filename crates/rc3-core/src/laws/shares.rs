//! Divides an endpoint's memory among its connections.
//!
//! A connection's [claim](Use::claimed) is what it holds and what its peer may still send: credit of the primary cannot
//! be taken back, so it counts when it is granted. Any connection may claim from the first half of the limit. Once that
//! is used up, each may claim its share of the other half while it lasts. So the claims never exceed the limit, except
//! that every connection has [`FLOOR`] bytes of credit, so that its primary never starves.
//!
//! RLP data needs no promise: it is refused when there is no room.
//!
//! All numbers are bytes.

use std::sync::Arc;

use super::pool::Pool;

/// Default limit for an endpoint's connections.
const MEMORY_MAX: u64 = 1 << 30;

/// The part of the limit by which a worker's use may differ from what the others know of it.
const UNREPORTED_PART: u64 = 1024;

/// What a connection may always use: more than an initial congestion window (RFC 9002 §7.2).
pub(crate) const FLOOR: u64 = 16 << 10;

/// Initial credit of all connections together is at most this part of the limit, floors apart.
const INITIAL_PART: u64 = 4;

/// A new connection gets at most this part of what is left of it.
const INITIAL_OF_REST: u64 = 32;

/// Memory of a connection, or of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Use {
    /// What peers have caused.
    pub(crate) held: u64,
    /// The same, what the application has stored for sending, and what peers may still send.
    pub(crate) claimed: u64,
}

#[derive(Debug)]
pub(crate) struct Shares {
    /// Limit for all connections together.
    pub(crate) max: u64,
    pub(crate) current: Use,
    /// Shared with the other workers on the port, which have the same limit.
    pool: Arc<Pool>,
    /// How much of the claims they know of.
    reported: u64,
}

impl Shares {
    /// For one of the endpoints that share `pool`.
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { max: MEMORY_MAX, current: Use::default(), pool, reported: 0 }
    }

    pub(crate) fn add_connection(&mut self) {
        self.pool.add_connection();
    }

    /// A connection with this use has ended.
    pub(crate) fn remove_connection(&mut self, last: Use) {
        self.pool.remove_connection();
        self.on_changed(last, Use::default());
    }

    /// A connection's use changed from `before` to `after`.
    pub(crate) fn on_changed(&mut self, before: Use, after: Use) {
        self.current.held = self.current.held - before.held + after.held;
        self.current.claimed = self.current.claimed - before.claimed + after.claimed;
        self.report();
    }

    /// What a connection that claims `claimed` may claim now.
    pub(crate) fn of_one(&self, claimed: u64) -> u64 {
        let half = self.max / 2;
        let all = self.all();
        let on_demand = match half.saturating_sub(all) {
            0 => 0,
            rest => claimed.saturating_add(rest),
        };
        // Shares of earlier, fewer connections were larger.
        let divided =
            (half / self.pool.connections().max(1)).min(claimed.saturating_add(self.max.saturating_sub(all)));
        on_demand.max(divided)
    }

    /// Credit that a new connection starts with, at most.
    pub(crate) fn initial_credit(&self) -> u64 {
        let rest = (self.max / INITIAL_PART).saturating_sub(self.all());
        (rest / INITIAL_OF_REST).max(FLOOR)
    }

    /// The claims of all connections on the port.
    fn all(&self) -> u64 {
        let others = self.pool.claimed().wrapping_sub(self.reported);
        others.wrapping_add(self.current.claimed)
    }

    /// Lets the other workers know of a change that matters.
    fn report(&mut self) {
        let claimed = self.current.claimed;
        let unreported = claimed.abs_diff(self.reported);
        if claimed == 0 && unreported > 0 || unreported > self.max / UNREPORTED_PART {
            self.pool.on_claimed(self.reported, claimed);
            self.reported = claimed;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(claimed: u64) -> Use {
        Use { held: claimed / 2, claimed }
    }

    #[test]
    fn half_is_shared_on_demand_and_the_rest_is_divided() {
        let mut shares = Shares { max: 1000, ..Shares::new(Arc::default()) };
        (0..5).for_each(|_| shares.add_connection());
        shares.on_changed(claim(0), claim(300));
        assert_eq!((shares.of_one(300), shares.of_one(0)), (500, 200));
        shares.on_changed(claim(300), claim(600));
        assert_eq!((shares.of_one(600), shares.of_one(0)), (100, 100));
        shares.on_changed(claim(0), claim(380));
        assert_eq!((shares.of_one(0), shares.of_one(10)), (20, 30));
        shares.remove_connection(claim(600));
        shares.remove_connection(claim(380));
        assert_eq!((shares.of_one(0), shares.current.held), (500, 0));
    }

    #[test]
    fn initial_credit_is_less_the_more_was_promised_and_never_below_the_floor() {
        let mut shares = Shares::new(Arc::default());
        assert_eq!(shares.initial_credit(), MEMORY_MAX / 128);
        let mut connections = 0;
        while shares.initial_credit() > FLOOR {
            let credit = claim(shares.initial_credit());
            shares.add_connection();
            shares.on_changed(claim(0), credit);
            connections += 1;
        }
        assert!(connections > 150 && shares.current.claimed < MEMORY_MAX / 4, "{connections} connections");
    }

    #[test]
    fn workers_share_one_limit() {
        let pool = Arc::<Pool>::default();
        let mut workers: [Shares; 2] =
            std::array::from_fn(|_| Shares { max: 10_240, ..Shares::new(pool.clone()) });
        workers.iter_mut().for_each(|worker| (0..4).for_each(|_| worker.add_connection()));
        let free = |workers: &[Shares; 2]| (workers[0].of_one(0), workers[1].of_one(0));
        workers[0].on_changed(claim(0), claim(4_000));
        assert_eq!(free(&workers), (1_120, 1_120));
        // Too little for a report: the other worker is not aware of the last ten bytes.
        workers[1].on_changed(claim(0), claim(1_115));
        workers[1].on_changed(claim(1_115), claim(1_125));
        assert_eq!(free(&workers), (640, 640));
        workers[0].remove_connection(claim(4_000));
        workers[1].remove_connection(claim(1_125));
        assert_eq!(free(&workers), (5_120, 5_120));
        assert_eq!((pool.claimed(), pool.connections()), (0, 6));
    }

    proptest! {
        /// Whatever connections ask for, in whatever order: together they claim no more than the limit.
        #[test]
        fn claims_never_exceed_the_limit(steps in prop::collection::vec((0..40_usize, 0..5_000_u64), 1..400)) {
            let mut shares = Shares { max: 10_000, ..Shares::new(Arc::default()) };
            let mut claims = Vec::<u64>::new();
            for (nth, wanted) in steps {
                if nth >= claims.len() {
                    claims.push(0);
                    shares.add_connection();
                    continue;
                }
                let before = claims[nth];
                let after = wanted.min(shares.of_one(before).max(before));
                shares.on_changed(claim(before), claim(after));
                claims[nth] = after;
                prop_assert!(claims.iter().sum::<u64>() <= 10_000);
            }
        }
    }
}
