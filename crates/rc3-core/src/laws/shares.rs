//! The memory of an endpoint, divided among its connections.
//!
//! Any connection may use the first half. Once that is used up, a connection may hold its share of the other half, and
//! what RLP would add beyond is turned away. So one connection can never take RLP from all others, and all together
//! never hold more than the whole, except data of their primaries, which is bounded for each connection.
//!
//! All numbers are bytes.

/// What the connections of an endpoint may hold by default.
const MEMORY_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Shares {
    /// What they may hold together.
    pub(crate) max: u64,
    /// What they hold.
    held: u64,
    connections: u64,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self { max: MEMORY_MAX, held: 0, connections: 0 }
    }

    /// What they hold.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn add_connection(&mut self) {
        self.connections += 1;
    }

    /// One that held `held` bytes is gone.
    pub(crate) fn remove_connection(&mut self, held: u64) {
        self.connections -= 1;
        self.held -= held;
    }

    /// One that held `before` holds `after`.
    pub(crate) fn on_changed(&mut self, before: u64, after: u64) {
        self.held = self.held - before + after;
    }

    /// What each connection may hold now.
    pub(crate) fn of_one(&self) -> u64 {
        let half = self.max / 2;
        if self.held < half { u64::MAX } else { half / self.connections.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_for_whoever_needs_it_and_the_rest_is_divided() {
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
