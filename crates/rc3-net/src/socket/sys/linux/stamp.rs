//! When the kernel received a message: its stamp by the calendar's clock, converted to an [`Instant`].
//!
//! The calendar may be set at any time. A stamp that then makes no sense is dropped, and the time of reading counts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// No process leaves a datagram unread for longer: an older stamp is from before the clock was set.
const AGE_MAX: Duration = Duration::from_secs(1);
/// A larger difference between what passed by either clock is a step of the calendar. It may also be a thousandth of the time:
/// the calendar's clock is slewed by up to 500 ppm (adjtimex(2)).
const STEP_MIN: Duration = Duration::from_millis(1);

/// Both clocks at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// Time since 1970.
    calendar: Duration,
    monotonic: Instant,
}

impl Clocks {
    /// Reads both. A pause between the two makes arrivals look later, as if they were read later.
    pub(super) fn read() -> Self {
        let calendar = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { calendar, monotonic: Instant::now() }
    }

    /// Whether the calendar was not set since `before`: otherwise stamps have no age.
    pub(super) fn go_on_from(&self, before: &Self) -> bool {
        let monotonic = self.monotonic.saturating_duration_since(before.monotonic);
        let calendar = self.calendar.checked_sub(before.calendar);
        calendar.is_some_and(|calendar| calendar.abs_diff(monotonic) <= STEP_MIN + monotonic / 1000)
    }

    /// The time of a stamp; `None` if it is in the future or too old.
    pub(super) fn instant(&self, stamp: Duration) -> Option<Instant> {
        let age = self.calendar.checked_sub(stamp).filter(|&age| age <= AGE_MAX)?;
        self.monotonic.checked_sub(age)
    }
}

/// A `timespec` as the kernel writes it: two numbers of 64 bits, or of 32 on old systems. `None` if it is neither, or
/// not a time since 1970.
pub(super) fn parse(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = match data.len() {
        16 => {
            let (seconds, nanos) = data.split_first_chunk()?;
            (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*nanos.first_chunk()?))
        }
        8 => {
            let (seconds, nanos) = data.split_first_chunk()?;
            (i32::from_ne_bytes(*seconds).into(), i32::from_ne_bytes(*nanos.first_chunk()?).into())
        }
        _ => return None,
    };
    let nanos = u32::try_from(nanos).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn clocks() -> Clocks {
        Clocks { calendar: NOW, monotonic: Instant::now() + Duration::from_secs(10) }
    }

    #[test]
    fn a_stamp_is_as_old_by_either_clock() {
        let clocks = clocks();
        for age in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(999), AGE_MAX] {
            assert_eq!(clocks.instant(NOW - age), Some(clocks.monotonic - age));
        }
    }

    #[test]
    fn a_clock_that_was_set_gives_no_time() {
        let clocks = clocks();
        let nanosecond = Duration::from_nanos(1);
        for stamp in [NOW + nanosecond, Duration::MAX, NOW - AGE_MAX - nanosecond, Duration::ZERO] {
            assert_eq!(clocks.instant(stamp), None, "{stamp:?}");
        }
        // The calendar is before 1970.
        assert_eq!(Clocks { calendar: Duration::ZERO, ..clocks }.instant(NOW), None);
    }

    #[test]
    fn a_step_of_the_calendar_is_seen() {
        let before = clocks();
        let after = |calendar: Duration, monotonic: Duration| {
            Clocks { calendar: NOW + calendar, monotonic: before.monotonic + monotonic }.go_on_from(&before)
        };
        let [ms, second] = [Duration::from_millis(1), Duration::from_secs(1)];
        assert!(
            after(Duration::ZERO, Duration::ZERO)
                && after(ms, ms)
                && after(100 * second, 100 * second + 50 * ms)
        );
        assert!(!after(500 * ms, ms) && !after(Duration::ZERO, 3 * ms));
        assert!(!Clocks { calendar: NOW - ms, ..before }.go_on_from(&before), "back");
    }

    #[test]
    fn stamps_of_either_width_are_parsed_and_others_are_none() {
        let wide = |seconds: i64, nanos: i64| parse(&[seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat());
        let narrow = |seconds: i32, nanos: i32| parse(&[seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat());
        assert_eq!(wide(1_800_000_000, 7), Some(NOW + Duration::from_nanos(7)));
        assert_eq!(narrow(1_800_000_000, 7), Some(NOW + Duration::from_nanos(7)));
        assert_eq!(wide(i64::MAX, 999_999_999), Some(Duration::new(i64::MAX as u64, 999_999_999)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, i64::MAX)] {
            assert_eq!(wide(seconds, nanos), None);
        }
        assert_eq!(narrow(-1, 0), None);
        for len in (0..32).filter(|len| ![8, 16].contains(len)) {
            assert_eq!(parse(&vec![0; len]), None, "{len} bytes");
        }
    }
}
