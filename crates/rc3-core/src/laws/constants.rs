//! The tuned numbers of the RLP loop in guard mode. `docs/CLOCK.md` says what each of them trades, and how sensitive the
//! results are.
//!
//! Limits of memory and of what a peer can gain are no tuned numbers; they stand where they apply.

use std::{ops::Deref, time::Duration};

/// A number that [`Constants::set`] can change; durations are in seconds.
trait Number: Copy {
    /// Whether it can be a factor, which a power scales.
    const IS_REAL: bool = false;

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
    kinds.into_iter().filter_map(|(kind, value)| Some(Variant { name, kind, value: value? })).collect()
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
    // --- the first flight on an unknown path ---
    /// Packets of the first flight.
    train: u64 = 16;
    /// Packets that follow it until feedback arrives,
    trickle_max: u64 = 96, off 0.0;
    /// and the time between them: about 12 Mbit/s.
    trickle_every: Duration = Duration::from_millis(1);
    /// Half round trips without feedback that end the first flight.
    start_half_round_trips: u32 = 3;

    // --- the first flight on a remembered path ---
    /// Fraction of a remembered rate to start with. RFC 9959 uses half a window; at seven tenths even a rate four times
    /// too high costs little, since lost bytes are sent again.
    remembered: f64 = 0.7, off 1.0;
    /// The part of a remembered BDP that leaves at once, as its divisor: a buffer of a tenth of a BDP should hold it;
    at_once_of_bdp: u64 = 8, off 1e9;
    /// and its lower bound in packets.
    at_once_min: u64 = 8, off 1.0;
    /// Round trips without feedback after which a remembered rate is dropped.
    unconfirmed_round_trips: u32 = 2;

    // --- pace ---
    /// Packets that leave together.
    burst: u64 = 8, off 2.0;
    /// Lateness of timers in user space: packets due meanwhile leave at once.
    pacer_late: Duration = Duration::from_millis(2), off 0.0;
    /// Factor above the delivery rate, to detect a faster path;
    gain: f64 = 1.05, off 1.0;
    /// while a queue or a loss shows;
    gain_calm: f64 = 1.0;
    /// and while only RLP itself has limited the rate.
    gain_unknown: f64 = 2.0, off 1.0;

    // --- the delivery rate ---
    /// Fewest bytes of a sample: six packets.
    sample_bytes: u64 = 7000;
    /// A sample covers a part of the round trip, as its divisor, so that bursts of aggregating links even out.
    sample_part: u32 = 8;
    /// Packets that a host reads together arrived within this time, in microseconds.
    resolution: u64 = 250, off 1.0;
    /// Packets that arrived later than they left by less than this may owe it to hosts, in microseconds,
    late_min: u64 = 1000, off 0.0;
    /// or by less than this part of the time in which they left, as its divisor,
    late_part: u64 = 10, off 1e6;
    /// or by less than this multiple of the mean difference of successive one-way times.
    late_jitters: f64 = 4.0, off 0.0;
    /// The part of a difference that moves that mean (RFC 3550 §6.4.1).
    jitter_gain: f64 = 1.0 / 16.0;
    /// If one of this many was lost, the path limited the sample: a policer adds no delay.
    lost_of: u64 = 4, off 0.0;
    /// A rate this many times as high as the path's limit is not known.
    known_excess: f64 = 1.1, off 1.0;
    /// A rate is handed on when it has changed by a part of itself, as the divisor.
    changed_part: f64 = 8.0;

    // --- queues ---
    /// Longer waits for other traffic are a queue,
    queue_min: Duration = Duration::from_millis(1), off 0.0;
    /// also than this part of a round trip, as its divisor.
    queue_part: u32 = 32, off 1e6;
    /// Packets that wait in queues other than the bottleneck's.
    queue_packets: f64 = 4.0, off 0.0;
    /// The queue is the least of this part of a round trip, as its divisor.
    recent_part: u32 = 4, off 1e6;
    /// RLP's window in packets while other traffic holds it back. Without one, RLP's own losses would end the primary's
    /// slow start without compensation.
    floor: f64 = 4.0, off 2.0;
    /// The same after losses.
    floor_min: f64 = 2.0, off 4.0;
    /// Round trips after which silence about a datagram is a loss: a full queue of several bandwidth-delay products is
    /// not.
    overdue: u32 = 4, off 1e3;
    /// Round trips after which a queue that showed may have gone.
    stale: u32 = 2, off 1e3;
    /// Factor by which a queue of others reduces RLP's part of the rate,
    share_down: f64 = 0.5, off 1.0;
    /// its lower bound,
    share_min: f64 = 0.125, off 0.0;
    /// and its growth in each round trip without a queue.
    share_up: f64 = 1.5, off 1e3;

    // --- the free part of the link ---
    /// Longer waits are a queue of others, in seconds: packets in service and timing noise of hosts,
    wait_min: f64 = 0.000_5, off 0.0;
    /// and a fraction of the own queue, since the rate is an estimate,
    own_part: f64 = 8.0, off 1e9;
    /// and a fraction of the time in which the link has not been idle, since the rate's error adds up,
    busy_part: f64 = 512.0, off 1e9;
    /// up to this many seconds.
    busy_wait_max: f64 = 0.001;
    /// With a longer own queue in front, in seconds, a packet that arrives too early shows that own packets were lost.
    own_max: f64 = 0.001, off 1e3;
    /// This many packets without other traffic are enough to consider the link idle.
    enough: f64 = 8.0, off 0.0;
    /// Good packets assumed before the first, and as many bad ones (Laplace's rule of succession).
    prior: f64 = 2.0, off 0.0;
    /// RLP uses this power of the free part, which leaves others room to grow.
    free_power: i32 = 2, off 1.0;

    // --- reordering, losses and reports ---
    /// A report comes with the packet that overtakes, when about one in this many of those it overtakes has left.
    reordering_seen: f64 = 2.0, off 0.0;
    /// A datagram is lost when this many later ones have arrived (RFC 9002 §6.1.1 has 3, for a sequence that is not
    /// reordered on purpose).
    reordering: u64 = 8, off 3.0;
    /// The way back and a receiver that reads late vary by this part of a round trip, as its divisor,
    noise_part: u32 = 16, off 1e6;
    /// or by this much.
    noise_min: Duration = Duration::from_millis(1), off 1e3;

    // --- the guard: whether the path honours priorities ---
    /// Most packets watched per round trip: the last one of each interval.
    guard_samples: u32 = 32;
    /// Waiting is evidence above this part of the round trip, as its divisor, within two bounds. Below it are the packet
    /// in service, which none can overtake (4 ms at 3 Mbit/s), and timing noise of hosts.
    guard_wait_part: u32 = 8, off 1e6;
    /// The lower bound.
    guard_wait_min: Duration = Duration::from_millis(4), off 0.0;
    /// The upper bound.
    guard_wait_max: Duration = Duration::from_millis(10), off 1e3;
    /// Lateness of hosts: a primary packet that arrives at most this much earlier than RLP keeps the order.
    guard_host_jitter: Duration = Duration::from_millis(1), off 0.0;
    /// Fewest RLP bytes that justify a probe behind them.
    probe_bytes_min: u64 = 16 * 1024, off 1e9;
    /// Probes are a part of a round trip apart, as its divisor,
    probe_pause_part: u32 = 4, off 1e6;
    /// but no less than this.
    probe_pause_min: Duration = Duration::from_millis(1), off 0.0;
    /// If RLP and the primary are both lost, RLP is the cause if it had this many times more in flight.
    dominance: u64 = 4, off 0.0;
    /// The share of RLP that was lost, in hundredths, at which it is evidence that a packet of the primary was not;
    lost_half: u64 = 50, off 1e3;
    /// and strong evidence.
    lost_most: u64 = 75, off 1e3;
    /// Weights of evidence against a path, in bits: the primary waited, or was lost, as if in one queue with RLP;
    weight_waited: i32 = 3, off 0.0;
    /// the same, but other traffic may have filled that queue.
    weight_with_others: i32 = 1, off 0.0;
    /// Weights for a path: the primary overtook an RLP packet that waited;
    weight_overtook: i32 = 4, off 0.0;
    /// it arrived while most RLP was lost;
    weight_spared: i32 = 2, off 0.0;
    /// or half of it.
    weight_spared_of_half: i32 = 1, off 0.0;

    // --- the order behind a burst ---
    /// Fewest datagrams of a burst. This many overtaken ones exclude other reordering (RFC 9002 §6.1.1 uses 3 for a loss).
    order_burst_min: u64 = 4, off 1e6;
    /// Longest pause within one burst: behind a slow card nothing waits at the bottleneck.
    order_pause_max: Duration = Duration::from_micros(500);
    /// Before this time the burst may still be in queues of the host, where the order says nothing about the path: 16
    /// packets and the primary's first ten take this long through a card of 150 Mbit/s.
    order_delay: Duration = Duration::from_millis(2);
    /// After this time nothing waits any more.
    order_late_max: Duration = Duration::from_millis(2);
    /// Packets at the end of a burst that waited for earlier ones.
    order_tail: u64 = 8;
}
