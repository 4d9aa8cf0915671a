//! What follows a failed call to receive.
//!
//! Most errors are over soon: the kernel has no memory, an interface is down. The call is repeated, after pauses that
//! double. A socket that only fails for a long time, or whose error shows that it always will, ends the endpoint.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::socket::is_unusable;

/// The first pause: the resolution of tokio's timers.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause: connections notice it, but survive.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long a socket may only fail: as long as a connection may hear nothing, by default.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// Failed calls of one socket since the last that succeeded.
#[derive(Debug, Default)]
pub(super) struct ReceiveFaults {
    first: Option<Instant>,
    pause: Duration,
    /// When the next call is due, if the last one failed.
    pub(super) retry_at: Option<Instant>,
}

impl ReceiveFaults {
    /// Notes a call that did not fail.
    pub(super) fn on_success(&mut self) {
        *self = Self::default();
    }

    /// Notes a failed call; returns whether to repeat it.
    pub(super) fn on_error(&mut self, now: Instant, error: &io::Error) -> bool {
        let first = *self.first.get_or_insert(now);
        if is_unusable(error) || now >= first + GIVE_UP_AFTER {
            return false;
        }
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.retry_at = Some(now + self.pause);
        true
    }
}

/// Whether it belongs to a datagram sent earlier, and anyone on the path may have caused it.
pub(super) fn is_of_a_datagram(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second_and_end_after_thirty() {
        let start = Instant::now();
        let (mut faults, mut now, mut pauses) = (ReceiveFaults::default(), start, Vec::new());
        while faults.on_error(now, &io::ErrorKind::OutOfMemory.into()) {
            pauses.push(faults.retry_at.unwrap() - now);
            now = faults.retry_at.unwrap();
        }
        assert_eq!(pauses[..4], [1, 2, 4, 8].map(Duration::from_millis));
        assert_eq!(pauses.last(), Some(&PAUSE_MAX));
        assert!(now - start >= GIVE_UP_AFTER && now - start < GIVE_UP_AFTER + PAUSE_MAX);
        assert!(pauses.len() < 100, "{}", pauses.len());
    }

    #[test]
    fn a_success_forgives_all_before() {
        let start = Instant::now();
        let mut faults = ReceiveFaults::default();
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            assert!(faults.on_error(now, &io::ErrorKind::OutOfMemory.into()), "{second}");
            assert_eq!(faults.retry_at, Some(now + PAUSE_MIN));
            faults.on_success();
            assert_eq!(faults.retry_at, None);
        }
    }

    #[test]
    fn an_error_that_will_stay_ends_it_at_once() {
        assert!(!ReceiveFaults::default().on_error(Instant::now(), &io::ErrorKind::Unsupported.into()));
        #[cfg(target_os = "linux")]
        for code in [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EOPNOTSUPP] {
            let error = io::Error::from_raw_os_error(code);
            assert!(!ReceiveFaults::default().on_error(Instant::now(), &error), "{error}");
        }
    }
}
