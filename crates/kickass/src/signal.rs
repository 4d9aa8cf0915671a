//! Whether a packet is to carry a rate, and which code (Kick-Ass §2): a decision from lengths, not bytes.
//!
//! Routers ask this for each departing packet; simulators can ask it for their own packets.

use std::time::{Duration, Instant};

use rc3_units::Rate;

use crate::{
    code::Code,
    indicator::Bucket,
    packet::{FRAGMENT_HEADER_LEN, FlowKey, Packet},
    sampling::{Sampler, Sampling},
    silence::{Silence, SilenceRule},
};

/// Which IPv6 packets a router may fragment. IPv6 has no Don't Fragment bit and leaves fragmentation to the source (RFC
/// 8200 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Ipv6 {
    /// None.
    Never,
    /// Those to which the source has added a Fragment header, whether or not they are fragments (RFC 6946): the source
    /// thereby permits fragmentation and has chosen the identification.
    #[default]
    WithFragmentHeader,
    /// All, as in Kick-Ass §5; the router chooses identifications. Do not use it where fragments may fail to reach the
    /// receivers.
    All,
}

/// How a router signals.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalConfig {
    /// Signalling can stop only while the queue at the best level exceeds this fraction of the limit; endpoints then
    /// fall back to TCP (Kick-Ass §2.3.2): 0.5.
    pub queue_threshold: f64,
    /// Signals return when the queue has not exceeded the threshold for this many round trips, or is empty: 8. The paper's
    /// rule is 0.
    pub queue_resume: u32,
    /// Whether exceeding the threshold is sufficient.
    pub silence: SilenceRule,
    /// How often: every packet.
    pub sampling: Sampling,
    /// Which IPv6 packets: those with a Fragment header.
    pub ipv6: Ipv6,
}

impl Default for SignalConfig {
    fn default() -> Self {
        Self {
            queue_threshold: 0.5,
            queue_resume: 8,
            silence: SilenceRule::default(),
            sampling: Sampling::default(),
            ipv6: Ipv6::default(),
        }
    }
}

/// What a router sees of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketPart {
    /// The whole packet.
    Whole,
    /// Its leading fragment.
    Leading,
    /// Another fragment.
    Other,
}

/// The properties of a packet that decide about signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// IP total length, in bytes.
    pub total_len: usize,
    /// Bytes of payload, which fragmentation divides.
    pub payload_len: usize,
    /// Fewest bytes of payload in a leading fragment.
    pub leading_min: usize,
    /// Which part of a packet it is.
    pub place: PacketPart,
    /// Whether it must not be fragmented.
    pub dont_fragment: bool,
    /// Whether its IP version has no such bit.
    pub ipv6: bool,
    /// Whether it has an IPv6 Fragment header.
    pub fragment_header: bool,
}

impl Subject {
    /// Reads the properties of a packet.
    pub fn of(packet: &Packet) -> Self {
        let place = match packet.fragment() {
            None => PacketPart::Whole,
            Some(fragment) if fragment.offset == 0 => PacketPart::Leading,
            Some(_) => PacketPart::Other,
        };
        Self {
            total_len: packet.total_len(),
            payload_len: packet.payload().len(),
            leading_min: packet.leading_min(),
            place,
            dont_fragment: packet.dont_fragment(),
            ipv6: packet.is_ipv6(),
            fragment_header: packet.has_fragment_header(),
        }
    }

    /// The round trip it indicates: its length is that of an indicator and cannot result from fragmentation.
    pub fn indicator(&self) -> Option<Bucket> {
        let alone = self.dont_fragment || self.ipv6 && !self.fragment_header;
        (self.place == PacketPart::Whole && alone).then(|| Bucket::from_total_len(self.total_len))?
    }
}

/// Why a packet leaves without a new signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Withheld {
    /// The law has no rate, or one below all codes.
    Rate,
    /// The queue is too long, or has been until recently, and by [`SilenceRule::Ignored`] the rate is ignored.
    Queue,
    /// It is not of the best level, the only one with a rate.
    Level,
    /// It is a fragment other than the leading one.
    Place,
    /// Don't Fragment is set, or it is an RTT indicator.
    DontFragment,
    /// It is not longer than the code, or an upstream router already signals at most that.
    Short,
    /// It cannot be fragmented there: that would split its headers, or its options are malformed.
    Headers,
    /// Its flow got a signal recently.
    Sampling,
}

impl Withheld {
    /// All of them, with names for statistics.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Rate, "rate"),
        (Self::Queue, "queue"),
        (Self::Level, "level"),
        (Self::Place, "place"),
        (Self::DontFragment, "dont_fragment"),
        (Self::Short, "short"),
        (Self::Headers, "headers"),
        (Self::Sampling, "sampling"),
    ];
}

/// The queue in front of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes queued at the best level.
    pub bytes: u64,
    /// Limit of the queue in bytes.
    pub limit: u64,
}

/// Decides for the packets of one link.
#[derive(Debug)]
pub struct Signaller {
    config: SignalConfig,
    sampler: Sampler,
    silence: Silence,
}

impl Signaller {
    /// A new signaller. `key` is random, so that nobody can choose which flows share a place in the table of
    /// [`Sampling::Flows`].
    pub fn new(config: SignalConfig, key: u64) -> Self {
        let sampler = Sampler::new(config.sampling, key);
        Self { config, sampler, silence: Silence::default() }
    }

    /// Replaces the configuration. Only a change of the sampling discards the record of when each flow was signalled.
    pub fn reconfigure(&mut self, config: SignalConfig, key: u64) {
        if config.sampling != self.config.sampling {
            self.sampler = Sampler::new(config.sampling, key);
        }
        self.config = config;
    }

    /// A packet of the best level arrived. Returns the round trip it indicates, if any; `flow` is called only then.
    pub fn on_arrival(&mut self, subject: &Subject, flow: impl FnOnce() -> FlowKey) -> Option<Bucket> {
        self.silence.on_arrival(subject.total_len);
        let rtt = subject.indicator()?;
        self.sampler.on_indicator(flow, rtt);
        Some(rtt)
    }

    /// Takes the queue at `now`, before it changes, and the senders' mean round trip `rtt`, if known. Returns whether
    /// the router withholds the rate from now on.
    pub fn advance(&mut self, now: Instant, backlog: Backlog, rtt: Option<Duration>) -> bool {
        self.silence.advance(now, backlog, &self.config, rtt);
        self.is_silent()
    }

    /// Whether it withholds the rate, as of the last [`Self::advance`].
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// The code that a departing packet of the best level is to carry, as of the last [`Self::advance`]; `flow` is called
    /// only if needed.
    ///
    /// # Errors
    /// Why the packet gets no new signal.
    pub fn decide(
        &mut self,
        now: Instant,
        subject: &Subject,
        flow: impl FnOnce() -> FlowKey,
        rate: Option<Rate>,
    ) -> Result<Code, Withheld> {
        let code = rate.and_then(Code::nearest).ok_or(Withheld::Rate)?;
        if subject.place == PacketPart::Other {
            return Err(Withheld::Place);
        }
        if !self.may_fragment(subject) {
            return Err(Withheld::DontFragment);
        }
        // A new Fragment header must not make the leading fragment longer than the packet.
        let shortened = if subject.ipv6 && !subject.fragment_header { FRAGMENT_HEADER_LEN } else { 1 };
        if subject.payload_len < code.payload_len() + shortened {
            return Err(Withheld::Short);
        }
        if subject.leading_min > code.payload_len() {
            return Err(Withheld::Headers);
        }
        if self.is_silent() {
            return Err(Withheld::Queue);
        }
        // A higher signal from upstream would be taken for that of the path, so it is always lowered.
        if subject.place == PacketPart::Whole && !self.sampler.take_turn(now, flow) {
            return Err(Withheld::Sampling);
        }
        Ok(code)
    }

    fn may_fragment(&self, subject: &Subject) -> bool {
        match self.config.ipv6 {
            _ if !subject.ipv6 => !subject.dont_fragment,
            Ipv6::Never => false,
            Ipv6::WithFragmentHeader => subject.fragment_header,
            Ipv6::All => subject.indicator().is_none(),
        }
    }
}
