//! Divides an endpoint's memory among its connections.
//!
//! Any connection may use the first half. Once that is used up, a connection may use its share of the other half, and
//! RLP data beyond it is refused. So one connection can never take RLP from all others, and all together never exceed
//! the limit, except with data of their primaries, which each connection bounds.
//!
//! All numbers are bytes.

/// Default limit for an endpoint's connections.
const MEMORY_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Shares {
    /// Limit for all connections together.
    pub(crate) max: u64,
    /// Current use.
    held: u64,
    connections: u64,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self { max: MEMORY_MAX, held: 0, connections: 0 }
    }

    /// Current use.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn add_connection(&mut self) {
        self.connections += 1;
    }

    /// A connection that used `held` bytes has ended.
    pub(crate) fn remove_connection(&mut self, held: u64) {
        self.connections -= 1;
        self.held -= held;
    }

    /// A connection's use changed from `before` to `after`.
    pub(crate) fn on_changed(&mut self, before: u64, after: u64) {
        self.held = self.held - before + after;
    }

    /// What each connection may use now.
    pub(crate) fn of_one(&self) -> u64 {
        let half = self.max / 2;
        if self.held < half { u64::MAX } else { half / self.connections.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_shared_on_demand_and_the_rest_is_divided() {
        let mut shares = Shares { max: 1000, ..Shares::new() };
        (0..5).for_each(|_| shares.add_connection());
        shares.on_changed(0, 499);
        assert_eq!(shares.of_one(), u64::MAX);
        shares.on_changed(499, 600);
        assert_eq!(shares.of_one(), 100);
        shares.remove_connection(600);
        assert_eq!((shares.of_one(), shares.held()), (u64::MAX, 0));
    }
}
