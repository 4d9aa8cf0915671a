//! Outages: the other side answers nothing, and the connection waits for the path to come back.

use std::{
    ops::RangeInclusive,
    pin::pin,
    time::{Duration, Instant},
};

use rc3_net::Connection;
use tokio::time::{sleep, timeout};

use super::progress::{Event, Reporter};
use crate::error::{Error, ErrorKind, Result};

/// Default time after which a side that answers nothing is given up: a night without network ends a transfer, a lunch
/// break does not. The lower one of both sides counts (RFC 9000 §10.1).
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(3600);
/// What it may be.
pub(crate) const GIVE_UP_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(7 * 86_400);

/// Time between two looks at the path.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// For how long the other side has answered nothing, although it was asked.
pub(crate) fn silence(connection: &Connection) -> Option<Duration> {
    Some(connection.try_stats()?.silent_since?.elapsed())
}

/// The result of `work`, unless it takes longer than `patience`. Outages do not count.
pub(crate) async fn patiently<T>(
    connection: &Connection,
    patience: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut work, mut left) = (pin!(work), patience);
    while !left.is_zero() {
        let step = left.min(LOOK_EVERY);
        if let Ok(done) = timeout(step, work.as_mut()).await {
            return Some(done);
        }
        if silence(connection).is_none() {
            left -= step;
        }
    }
    None
}

/// First pause between two tries to connect; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// How long to try at a side that has no free slot.
const BUSY_PATIENCE: Duration = Duration::from_secs(120);

/// Tries to connect to a side that is busy, or that was there before: its process may be started again.
#[derive(Debug)]
pub(crate) struct Tries {
    give_up_after: Duration,
    /// When the other side was there last; the first time, if it never was.
    began: Instant,
    met: bool,
    pause: Duration,
}

impl Tries {
    pub(crate) fn new(give_up_after: Duration) -> Self {
        Self { give_up_after, began: Instant::now(), met: false, pause: PAUSE_MIN }
    }

    /// Waits for the next try, or returns the failure if there is none after it.
    pub(crate) async fn wait_after(&mut self, error: Error, reporter: &mut Reporter) -> Result<()> {
        let Some(pause) = self.pause_after(&error) else { return Err(error) };
        reporter.clear();
        reporter.report(&Event::Retrying { reason: error.to_string(), seconds: pause.as_secs_f64() });
        sleep(pause).await;
        Ok(())
    }

    /// The pause before the next try, if there is one after this failure.
    fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        let limit = match error.kind() {
            ErrorKind::Gone => {
                *self = Self { met: true, ..Self::new(self.give_up_after) };
                self.give_up_after
            }
            ErrorKind::Busy if !self.met => BUSY_PATIENCE,
            ErrorKind::Busy | ErrorKind::Connect | ErrorKind::NoUdp | ErrorKind::Ssh if self.met => {
                self.give_up_after
            }
            _ => return None,
        };
        let pause = self.pause;
        self.pause = (2 * pause).min(PAUSE_MAX);
        (self.began.elapsed() + pause < limit).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_there_is_tried_for_long() {
        let of = |kind| Error::new(kind, "", "");
        let mut tries = Tries::new(GIVE_UP_AFTER);
        assert_eq!(tries.pause_after(&of(ErrorKind::Connect)), None, "a mistyped address");
        assert_eq!(tries.pause_after(&of(ErrorKind::Busy)), Some(PAUSE_MIN));
        assert_eq!(tries.pause_after(&of(ErrorKind::Gone)), Some(PAUSE_MIN));
        let pauses = [2, 4, 8, 8].map(|seconds| Some(Duration::from_secs(seconds)));
        assert_eq!(pauses.map(|_| tries.pause_after(&of(ErrorKind::Connect))), pauses);
        tries.began = Instant::now().checked_sub(GIVE_UP_AFTER).unwrap();
        assert_eq!(tries.pause_after(&of(ErrorKind::Connect)), None);
        assert_eq!(tries.pause_after(&of(ErrorKind::Refused)), None);
    }
}
