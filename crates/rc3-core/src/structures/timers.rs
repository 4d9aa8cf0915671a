//! The deadlines of an endpoint's connections.

use std::{cmp::Reverse, time::Instant};

use crate::{quic::ConnectionHandle, structures::tournament::Tournament};

/// A deadline, or none, which sorts last.
type Deadline = Reverse<Option<Reverse<Instant>>>;

const NONE: Deadline = Reverse(None);

/// At most one deadline per connection. Most datagrams move one.
#[derive(Debug)]
pub(crate) struct Timers(Tournament<Deadline>);

impl Default for Timers {
    fn default() -> Self {
        Self(Tournament::new(NONE))
    }
}

impl Timers {
    /// Sets the deadline of a connection.
    pub(crate) fn set(&mut self, handle: ConnectionHandle, deadline: Option<Instant>) {
        self.0.make_room(handle.0 + 1);
        self.0.set(handle.0, Reverse(deadline.map(Reverse)));
    }

    /// The earliest deadline.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.first().0.map(|Reverse(deadline)| deadline)
    }

    /// A connection whose deadline has passed; its deadline is removed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<ConnectionHandle> {
        let is_due = self.first().is_some_and(|deadline| deadline <= now);
        is_due.then(|| ConnectionHandle(self.0.pop()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn due_connections_come_in_the_order_of_their_last_deadlines() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::default();
        assert_eq!((timers.first(), timers.pop(at(99))), (None, None));
        for (number, deadline) in [(5, 7), (0, 3), (2, 5), (1, 4), (0, 6)] {
            timers.set(ConnectionHandle(number), Some(at(deadline)));
        }
        timers.set(ConnectionHandle(1), None);
        assert_eq!((timers.first(), timers.pop(at(4))), (Some(at(5)), None));
        let due: Vec<_> = std::iter::from_fn(|| timers.pop(at(7))).collect();
        assert_eq!(due, [2, 0, 5].map(ConnectionHandle));
        assert_eq!(timers.first(), None);
    }
}
