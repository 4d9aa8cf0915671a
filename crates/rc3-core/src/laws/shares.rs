//! Divides an endpoint's memory among its connections.
//!
//! Any connection may use the first half. Once that is used up, a connection may use its share of the other half, and
//! RLP data beyond it is refused. So one connection can never take RLP from all others, and all together never exceed
//! the limit, except with data of their primaries, which each connection bounds.
//!
//! All numbers are bytes.

use std::sync::Arc;

use super::pool::Pool;

/// Default limit for an endpoint's connections.
const MEMORY_MAX: u64 = 1 << 30;

/// The part of the limit by which a worker's use may differ from what the others know of it.
const UNREPORTED_PART: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Shares {
    /// Limit for all connections together.
    pub(crate) max: u64,
    /// Current use.
    held: u64,
    connections: u64,
    /// The other workers on the port, which have the same limit, and how much of `held` they know of.
    pool: Option<(Arc<Pool>, u64)>,
}

impl Shares {
    /// For an endpoint alone, or one of those that share `pool`.
    pub(crate) fn new(pool: Option<Arc<Pool>>) -> Self {
        Self { max: MEMORY_MAX, held: 0, connections: 0, pool: pool.map(|pool| (pool, 0)) }
    }

    /// Current use.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn add_connection(&mut self) {
        self.connections += 1;
        if let Some((pool, _)) = &self.pool {
            pool.add_connection();
        }
    }

    /// A connection that used `held` bytes has ended.
    pub(crate) fn remove_connection(&mut self, held: u64) {
        self.connections -= 1;
        self.held -= held;
        if let Some((pool, _)) = &self.pool {
            pool.remove_connection();
        }
        self.report();
    }

    /// A connection's use changed from `before` to `after`.
    pub(crate) fn on_changed(&mut self, before: u64, after: u64) {
        self.held = self.held - before + after;
        self.report();
    }

    /// What each connection may use now.
    pub(crate) fn of_one(&self) -> u64 {
        let half = self.max / 2;
        let (held, connections) = match &self.pool {
            None => (self.held, self.connections),
            Some((pool, reported)) => {
                (pool.held().wrapping_sub(*reported).wrapping_add(self.held), pool.connections())
            }
        };
        if held < half { u64::MAX } else { half / connections.max(1) }
    }

    /// Lets the other workers know of a change that matters.
    fn report(&mut self) {
        let Some((pool, reported)) = &mut self.pool else { return };
        let unreported = self.held.abs_diff(*reported);
        if self.held == 0 && unreported > 0 || unreported > self.max / UNREPORTED_PART {
            pool.on_held(*reported, self.held);
            *reported = self.held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_shared_on_demand_and_the_rest_is_divided() {
        let mut shares = Shares { max: 1000, ..Shares::new(None) };
        (0..5).for_each(|_| shares.add_connection());
        shares.on_changed(0, 499);
        assert_eq!(shares.of_one(), u64::MAX);
        shares.on_changed(499, 600);
        assert_eq!(shares.of_one(), 100);
        shares.remove_connection(600);
        assert_eq!((shares.of_one(), shares.held()), (u64::MAX, 0));
    }

    #[test]
    fn workers_share_one_limit() {
        let pool = Arc::<Pool>::default();
        let mut workers: [Shares; 2] =
            std::array::from_fn(|_| Shares { max: 10_240, ..Shares::new(Some(pool.clone())) });
        workers.iter_mut().for_each(|worker| (0..4).for_each(|_| worker.add_connection()));
        workers[0].on_changed(0, 5_000);
        assert_eq!((workers[0].of_one(), workers[1].of_one()), (u64::MAX, u64::MAX));
        // Too little for a report: the other worker is not aware of the last ten bytes.
        workers[1].on_changed(0, 115);
        workers[1].on_changed(115, 125);
        assert_eq!((workers[0].of_one(), workers[1].of_one()), (u64::MAX, 640));
        workers[1].on_changed(125, 200);
        assert_eq!((workers[0].of_one(), workers[1].of_one()), (640, 640));
        workers[0].remove_connection(5_000);
        workers[1].remove_connection(200);
        assert_eq!((workers[0].of_one(), workers[1].of_one()), (u64::MAX, u64::MAX));
        assert_eq!((pool.held(), pool.connections()), (0, 6));
    }
}
