//! The tuned numbers of the RLP loop in guard mode. `docs/CLOCK.md` says what each of them trades, and how sensitive the
//! results are.
//!
//! Limits of memory and of what a peer can gain are no tuned numbers; they stand where they apply.

use std::{ops::Deref, time::Duration};

/// A number that [`Constants::set`] can change; durations are in seconds.
trait Number: Copy {
    /// Whether it can be a factor, which a power scales.
    const IS_REAL: bool = false;
    /// Whether it has no fraction.
    const IS_WHOLE: bool = false;

    /// The nearest one.
    fn from_f64(value: f64) -> Self;

    fn to_f64(self) -> f64;
}

impl Number for f64 {
    const IS_REAL: bool = true;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}

impl Number for Duration {
    fn from_f64(value: f64) -> Self {
        Self::try_from_secs_f64(value).unwrap_or(Self::MAX)
    }

    fn to_f64(self) -> f64 {
        self.as_secs_f64()
    }
}

macro_rules! whole_numbers {
    ($($type:ty)+) => {$(
        impl Number for $type {
            const IS_WHOLE: bool = true;

            fn from_f64(value: f64) -> Self {
                value.round() as Self
            }

            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )+};
}

whole_numbers!(u64 u32 i32);

/// The largest value that [`Constants::set`] takes.
const LARGEST: f64 = 1e9;

/// The number nearest to `value`, if a law can follow it. Zero divides, unless it is the value without effect.
fn checked<T: Number>(value: f64, off: Option<f64>) -> Result<T, &'static str> {
    let number = T::from_f64(value);
    match () {
        () if !(0.0..=LARGEST).contains(&value) => Err("not within 0 to 1e9"),
        () if T::IS_WHOLE && value.fract() != 0.0 => Err("not a whole number"),
        () if number.to_f64() == 0.0 && off != Some(0.0) => Err("not above zero"),
        () => Ok(number),
    }
}

/// A number with another value than the product's, to measure its effect.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Variant {
    /// The number.
    pub name: &'static str,
    /// `off`, `half` or `double`.
    pub kind: &'static str,
    /// Its value; durations are in seconds.
    pub value: f64,
}

/// The value without effect, if there is one; half and twice the product's. Half a factor is its square root.
fn variants_of<T: Number>(name: &'static str, value: T, off: Option<f64>) -> Vec<Variant> {
    let is_factor = T::IS_REAL && off == Some(1.0);
    let scaled = |by: f64| if is_factor { value.to_f64().powf(by) } else { value.to_f64() * by };
    let kinds = [("off", off), ("half", Some(scaled(0.5))), ("double", Some(scaled(2.0)))];
    let nearest = |value| T::from_f64(value).to_f64();
    kinds
        .into_iter()
        .filter_map(|(kind, value)| Some(Variant { name, kind, value: nearest(value?) }))
        .collect()
}

macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr $(, off $off:literal)?;)+) => {
        /// The tuned numbers. Their default is the product's.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct Constants {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Constants {
            /// The product's numbers.
            pub const DEFAULT: Self = Self { $($name: $value,)+ };

            /// Changes one by its name; durations are in seconds.
            ///
            /// # Errors
            /// With the reason, if there is none of that name, or no law can follow the value.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), &'static str> {
                match name {
                    $(stringify!($name) => self.$name = checked(value, None$(.or(Some($off)))?)?,)+
                    _ => return Err("no number of RLP's law"),
                }
                Ok(())
            }

            /// Other values of each number, in order.
            pub fn variants() -> Vec<Variant> {
                let of = [$(variants_of(stringify!($name), Self::DEFAULT.$name, None$(.or(Some($off)))?),)+];
                of.concat()
            }
        }
    };
}

/// The constants that a law follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law(&'static Constants);

impl Law {
    /// A law with other constants than the product's, to measure what they do.
    pub(crate) fn new(constants: &'static Constants) -> Self {
        Self(constants)
    }
}

impl Default for Law {
    fn default() -> Self {
        Self(&Constants::DEFAULT)
    }
}

impl Deref for Law {
    type Target = Constants;

    fn deref(&self) -> &Constants {
        self.0
    }
}

constants! {
    // --- ideas that several rules share ---
    /// Factor of caution towards others: RLP uses this power of the free part, which leaves them room to grow; so many good and
    /// bad packets are assumed before the first (Laplace's rule of succession); a queue of others divides RLP's part of the
    /// rate by it; and a queue that showed may have gone after so many round trips.
    caution: f64 = 2.0;
    /// Hosts delay packets by this much, so that less is no queue of others, no evidence and no lie. Packets within half of it
    /// were sent together, those within a quarter of it were read together.
    host_jitter: Duration = Duration::from_millis(1);
    /// Timers in user space are late by this much, and a card needs as long for a burst.
    host_lateness: Duration = Duration::from_millis(2);
    /// Packets that leave together, that may overtake each other, and that leave at once on a remembered path: a short buffer
    /// should hold them.
    burst: u64 = 8, off 2.0;
    /// Packets that harm nobody in a round trip, that may wait in queues other than the bottleneck's, and at least as many as a
    /// burst has. RLP sends them while other traffic holds it back; otherwise its own losses would end the primary's slow
    /// start without compensation.
    few: u64 = 4;
    /// One-way times vary by this part of a round trip, as its divisor: a longer wait is a queue, or a lie.
    noise_part: u32 = 32, off 1e6;
    /// What happened within this part of a round trip, as its divisor, is recent.
    recent_part: u32 = 4, off 1e6;

    // --- the first flight on an unknown path ---
    /// Packets of the first flight.
    train: u64 = 16;
    /// Packets that follow it until feedback arrives,
    trickle_max: u64 = 128, off 0.0;
    /// and the time between them: about 12 Mbit/s.
    trickle_every: Duration = Duration::from_millis(1);
    /// Round trips without feedback that end it, also on a remembered path. Where priorities are honoured, so many BDPs may be in
    /// flight at any time.
    silence: u32 = 2;

    // --- pace ---
    /// Factor above the delivery rate, to detect a faster path, unless a queue or a loss shows;
    gain: f64 = 1.05, off 1.0;
    /// and while only RLP itself has limited the rate.
    gain_unknown: f64 = 1.5, off 1.0;

    // --- the delivery rate ---
    /// Fewest bytes of a sample: six packets.
    sample_bytes: u64 = 7000;
    /// A sample covers a part of the round trip, as its divisor, so that bursts of aggregating links even out.
    sample_part: u32 = 8;
    /// Packets that arrived later than they left by less than this multiple of the mean difference of successive one-way times
    /// may owe it to jitter.
    late_jitters: f64 = 4.0, off 0.0;
    /// If one of this many was lost, the path limited the sample: a policer adds no delay.
    lost_of: u64 = 4, off 0.0;
    /// A rate this many times as high as the path's limit is not known. Packets that reorder make a sample faster.
    known_excess: f64 = 1.1, off 1.0;

    // --- the primary ---
    /// Slow start ends at so many BDPs times the free part, at least one, and what others have in the queue.
    slow_start_max: f64 = 1.5, off 1e9;

    // --- the free part of the link ---
    /// RLP's least part of the rate, unless a queue shows.
    share_min: f64 = 0.125, off 0.0;
    /// The growth of that part in each round trip without a queue: packets that reorder look like one.
    share_up: f64 = 1.5, off 1e3;
    /// A queue of others is longer than this part of the own queue, as its divisor, since the rate is an estimate,
    own_part: f64 = 8.0, off 1e9;
    /// and than this part of the time in which the link has not been idle, since the rate's error adds up.
    busy_part: f64 = 32.0, off 1e9;
    /// When the first rate that is known is more than this many times the lower bound before, what was seen by that bound does
    /// not count.
    far_too_low: f64 = 1.5, off 1e9;
    /// This many packets without other traffic are enough to consider the link idle.
    enough: f64 = 8.0, off 0.0;

    // --- reordering ---
    /// A report comes with the packet that overtakes, when about one in this many of those it overtakes has left.
    reordering_seen: f64 = 2.0, off 0.0;

    // --- the guard: whether the path honours priorities ---
    /// Most packets watched per round trip: the last one of each interval.
    guard_samples: u32 = 32;
    /// Waiting is evidence above this part of the round trip, as its divisor, within two bounds. Below it are the packet
    /// in service, which none can overtake (4 ms at 3 Mbit/s), jitter, and timing noise of hosts.
    evident_part: u32 = 8, off 1e6;
    /// The lower bound, and how long the path takes for a burst that shall leave a queue.
    evident_min: Duration = Duration::from_millis(4), off 0.0;
    /// The upper bound.
    evident_max: Duration = Duration::from_millis(10), off 1e3;
    /// If RLP and the primary are both lost, RLP is the cause if it had this many times more in flight.
    dominance: u64 = 4, off 0.0;
    /// The share of RLP that was lost, in hundredths, at which it is evidence that a packet of the primary was not.
    lost_most: u64 = 75, off 1e3;
    /// Weight of clear evidence, in bits: the primary waited, or was lost, as if in one queue with RLP; or it overtook an RLP
    /// packet that waited.
    weight_clear: i32 = 3, off 0.0;
    /// Weight of weak evidence: it waited, but other traffic may have filled the queue; or it arrived while most RLP was lost.
    weight_weak: i32 = 1, off 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_law_can_follow_is_refused() {
        let mut constants = Constants::DEFAULT;
        for (name, value) in [
            ("trian", 8.0),
            ("sample_part", 0.0),
            ("sample_part", 0.3),
            ("noise_part", 16.5),
            ("lost_most", 0.5),
            ("gain", -1.0),
            ("gain", f64::NAN),
            ("host_jitter", 1e10),
        ] {
            assert!(constants.set(name, value).is_err(), "{name} {value}");
        }
        assert_eq!(constants, Constants::DEFAULT);
        assert_eq!(constants.set("trickle_max", 0.0), Ok(()), "that is without effect");
        assert_eq!(constants.trickle_max, 0);
    }

    #[test]
    fn each_number_has_other_values_and_any_can_be_set() {
        let of = |wanted: &str| -> Vec<(&str, f64)> {
            let all = Constants::variants().into_iter();
            all.filter(|variant| variant.name == wanted)
                .map(|variant| (variant.kind, variant.value))
                .collect()
        };
        assert_eq!(of("train"), [("half", 8.0), ("double", 32.0)]);
        assert_eq!(of("weight_clear"), [("off", 0.0), ("half", 2.0), ("double", 6.0)]);
        assert_eq!(of("trickle_max"), [("off", 0.0), ("half", 64.0), ("double", 256.0)]);
        // A factor.
        assert_eq!(of("gain"), [("off", 1.0), ("half", 1.05_f64.sqrt()), ("double", 1.05_f64.powi(2))]);
        for Variant { name, value, .. } in Constants::variants() {
            assert_eq!(Constants::DEFAULT.clone().set(name, value), Ok(()), "{name} {value}");
        }
    }
}
