//! Whether a packet is to carry a rate, and which code (Kick-Ass §2): a decision over lengths, not over bytes.
//!
//! Routers ask it about each packet that leaves; simulators can ask the same about packets of their own.

use std::time::{Duration, Instant};

use crate::{
    code::Code,
    indicator::Bucket,
    packet::{Flow, Packet},
    rate::Rate,
    sampling::{Sampler, Sampling},
    silence::{Rule, Silence},
};

/// Which IPv6 packets may be fragmented. They have no Don't Fragment bit, and IPv6 leaves fragmentation to their
/// source (RFC 8200 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ipv6 {
    /// None.
    Never,
    /// Those to which the source itself has given a Fragment header, be they fragments or not (RFC 6946): it says that
    /// way that they may be fragmented, and has chosen the identification.
    #[default]
    WithFragmentHeader,
    /// All, as Kick-Ass §5 has it; the router chooses identifications. Not for networks that lead to ends of which it is
    /// unknown whether fragments reach them.
    All,
}

/// How a router signals.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalConfig {
    /// Only while more than this part of the queue's limit waits at the best level, nothing is signalled, and the ends fall
    /// back to TCP (Kick-Ass §2.3.2): 0.5.
    pub queue_threshold: f64,
    /// Whether that is enough for silence.
    pub silence: Rule,
    /// How often: always.
    pub sampling: Sampling,
    /// Which IPv6 packets: those with a Fragment header.
    pub ipv6: Ipv6,
}

impl Default for SignalConfig {
    fn default() -> Self {
        Self {
            queue_threshold: 0.5,
            silence: Rule::default(),
            sampling: Sampling::default(),
            ipv6: Ipv6::default(),
        }
    }
}

/// Which part of a packet a router sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// All of it.
    Whole,
    /// Its leading fragment.
    Leading,
    /// Another fragment.
    Other,
}

/// A packet as far as signals are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// IP total length, in bytes.
    pub total_len: usize,
    /// What fragmentation divides, in bytes.
    pub payload_len: usize,
    /// Bytes of payload a leading fragment must have at least.
    pub leading_min: usize,
    /// Which part of a packet it is.
    pub place: Place,
    /// Whether it may not be fragmented.
    pub dont_fragment: bool,
    /// Whether there is no such bit in its version of IP.
    pub ipv6: bool,
    /// Whether it has an IPv6 Fragment header.
    pub fragment_header: bool,
}

impl Subject {
    /// What there is to know of a packet.
    pub fn of(packet: &Packet) -> Self {
        let place = match packet.fragment() {
            None => Place::Whole,
            Some(fragment) if fragment.offset == 0 => Place::Leading,
            Some(_) => Place::Other,
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

    /// The round trip it indicates: it has one of the lengths, and cannot have got it by fragmentation.
    pub fn indicator(&self) -> Option<Bucket> {
        let alone = self.dont_fragment || self.ipv6 && !self.fragment_header;
        (self.place == Place::Whole && alone).then(|| Bucket::from_total_len(self.total_len))?
    }
}

/// Why a packet leaves as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Withheld {
    /// The law has no rate, or one below all codes.
    Rate,
    /// Too much waits, and by [`Rule::Ignored`] the rate is ignored.
    Queue,
    /// It is not of the best level, which alone the rate is about.
    Level,
    /// It is a fragment, not the leading one.
    Place,
    /// It may not be fragmented; or it is an RTT indicator.
    DontFragment,
    /// It is not longer than the code; or an upstream router signals no more than that already.
    Short,
    /// It cannot be fragmented there: headers would be torn apart, or its options are malformed.
    Headers,
    /// Its flow has been told recently.
    Sampling,
}

impl Withheld {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Rate,
        Self::Queue,
        Self::Level,
        Self::Place,
        Self::DontFragment,
        Self::Short,
        Self::Headers,
        Self::Sampling,
    ];
}

/// How much waits in front of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes at the best level.
    pub bytes: u64,
    /// Bytes that may wait.
    pub limit: u64,
}

/// Decides for one link.
#[derive(Debug)]
pub struct Signaller {
    config: SignalConfig,
    sampler: Sampler,
    silence: Silence,
}

impl Signaller {
    /// A signaller that has seen nothing. `key` is random, so that nobody can choose which flows share a place in the
    /// table of [`Sampling::Flows`].
    pub fn new(config: SignalConfig, key: u64) -> Self {
        let sampler = Sampler::new(config.sampling, key);
        Self { config, sampler, silence: Silence::default() }
    }

    /// Decides by another configuration from now on. Only with other sampling is forgotten what flows were told.
    pub fn reconfigure(&mut self, config: SignalConfig, key: u64) {
        if config.sampling != self.config.sampling {
            self.sampler = Sampler::new(config.sampling, key);
        }
        self.config = config;
    }

    /// A packet of the best level has come. Says which round trip it indicates, if it does; `flow` is called only then.
    pub fn on_arrival(&mut self, subject: &Subject, flow: impl FnOnce() -> Flow) -> Option<Bucket> {
        self.silence.on_arrival(subject.total_len);
        let rtt = subject.indicator()?;
        self.sampler.on_indicator(flow, rtt);
        Some(rtt)
    }

    /// So much waits at `now`, before it changes; senders' mean round trip is `rtt`, if any have told theirs. Whether nobody is
    /// told anything from now on.
    pub fn advance(&mut self, now: Instant, backlog: Backlog, rtt: Option<Duration>) -> bool {
        let above = self.is_above(backlog);
        self.silence.advance(now, backlog.bytes, above, rtt);
        self.is_silent(backlog)
    }

    fn is_silent(&self, backlog: Backlog) -> bool {
        self.is_above(backlog) && (self.config.silence == Rule::Threshold || self.silence.is_ignored())
    }

    fn is_above(&self, backlog: Backlog) -> bool {
        backlog.bytes as f64 > self.config.queue_threshold * backlog.limit as f64
    }

    /// Which code a packet of the best level that leaves now is to carry; `flow` is called only if it matters.
    ///
    /// # Errors
    /// Why it is to carry none, or the one it has.
    pub fn decide(
        &mut self,
        now: Instant,
        subject: &Subject,
        flow: impl FnOnce() -> Flow,
        backlog: Backlog,
        rate: Option<Rate>,
    ) -> Result<Code, Withheld> {
        let code = rate.and_then(Code::nearest).ok_or(Withheld::Rate)?;
        if subject.place == Place::Other {
            return Err(Withheld::Place);
        }
        if !self.may_fragment(subject) {
            return Err(Withheld::DontFragment);
        }
        if subject.payload_len <= code.payload_len() {
            return Err(Withheld::Short);
        }
        if subject.leading_min > code.payload_len() {
            return Err(Withheld::Headers);
        }
        if self.is_silent(backlog) {
            return Err(Withheld::Queue);
        }
        // A signal from upstream that is too high would be taken for that of the path: it is always lowered.
        if subject.place == Place::Whole && !self.sampler.is_due(now, flow) {
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
