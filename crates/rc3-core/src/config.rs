//! What an application or operator may choose, the defaults, and the reason for each.

use std::{fmt, sync::Arc, time::Duration};

use crate::{rlp::ladder::Ladder, units::Rate};

/// Whether and how the RLP loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RlpMode {
    /// The network is trusted to honour the marks (RC3 §2.1).
    #[default]
    Trust,
    /// No RLP at all, not even on offer: plain QUIC v1.
    Off,
}

/// The congestion controller of the primary loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// RFC 9002 §7, the papers' choice.
    NewReno,
    /// RFC 9438, what most of today's traffic uses.
    #[default]
    Cubic,
    /// BBR as quinn-proto has it (experimental).
    Bbr,
}

/// Settings of one connection, shared by many.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    pub(crate) rlp: RlpMode,
    pub(crate) ladder: Ladder,
    pub(crate) nic_rate: Option<Rate>,
    pub(crate) rlp_stream_window: u64,
    pub(crate) rlp_window: u64,
    pub(crate) congestion: Congestion,
    pub(crate) initial_window: Option<u64>,
    pub(crate) paced: bool,
    pub(crate) stream_receive_window: u32,
    pub(crate) receive_window: u32,
    pub(crate) send_window: u64,
    pub(crate) max_concurrent_bidi_streams: u32,
    pub(crate) max_concurrent_uni_streams: u32,
    pub(crate) max_idle_timeout: Option<Duration>,
    pub(crate) keep_alive_interval: Option<Duration>,
    pub(crate) initial_rtt: Duration,
    pub(crate) initial_mtu: u16,
    pub(crate) mtu_discovery: bool,
}

impl Default for TransportConfig {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            rlp: RlpMode::Trust,
            ladder: Ladder::default(),
            nic_rate: None,
            // What RLP may fill in the first round trip: 32 MiB is 2.5 Gbit/s x 100 ms.
            rlp_stream_window: 32 * MIB,
            rlp_window: 32 * MIB,
            congestion: Congestion::default(),
            initial_window: None,
            paced: true,
            // quinn-proto's 1.25 MB would throttle any path beyond 100 Mbit/s x 100 ms.
            stream_receive_window: 16 << 20,
            receive_window: 32 << 20,
            send_window: 32 * MIB,
            // quinn-proto preallocates per stream it allows.
            max_concurrent_bidi_streams: 100,
            max_concurrent_uni_streams: 100,
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_interval: None,
            initial_rtt: Duration::from_millis(333),
            initial_mtu: 1200,
            mtu_discovery: true,
        }
    }
}

impl TransportConfig {
    /// Whether and how the RLP loop runs. Default: [`RlpMode::Trust`].
    pub fn rlp(&mut self, mode: RlpMode) -> &mut Self {
        self.rlp = mode;
        self
    }

    /// How many RLP packets ride on which level. Default: 40, 400, 4000, ... on seven levels (RC3 §2.1).
    pub fn ladder(&mut self, ladder: Ladder) -> &mut Self {
        self.ladder = ladder;
        self
    }

    /// The speed of the sender's network card. With it, RLP leaves at this rate less what the primary takes;
    /// without it, as fast as the socket accepts. Worth setting when the first queue is not on this host.
    pub fn nic_rate(&mut self, rate: Option<Rate>) -> &mut Self {
        self.nic_rate = rate;
        self
    }

    /// Bytes of one stream that the peer's RLP loop may send beyond what the application has read. Never
    /// below [`crate::wire::control::INITIAL_CREDIT`], which a peer may use before it knows better.
    pub fn rlp_stream_window(&mut self, bytes: u64) -> &mut Self {
        self.rlp_stream_window = bytes.max(crate::wire::control::INITIAL_CREDIT);
        self
    }

    /// The same for all streams of a connection together: the bound on memory for RLP data.
    pub fn rlp_window(&mut self, bytes: u64) -> &mut Self {
        self.rlp_window = bytes.max(crate::wire::control::INITIAL_CREDIT);
        self
    }

    /// Congestion controller of the primary. Default: CUBIC.
    pub fn congestion(&mut self, congestion: Congestion) -> &mut Self {
        self.congestion = congestion;
        self
    }

    /// Initial congestion window in bytes; `None` is the controller's own default.
    ///
    /// A packet leaves while `in flight + mtu < window`, so four full packets want `4 * mtu + 1`.
    pub fn initial_window(&mut self, bytes: Option<u64>) -> &mut Self {
        self.initial_window = bytes;
        self
    }

    /// Whether the primary spreads a window over the round trip (default) or sends in bursts as the papers'
    /// TCP does.
    pub fn paced(&mut self, paced: bool) -> &mut Self {
        self.paced = paced;
        self
    }

    /// Bytes the peer's primary may send on one stream beyond what was read. Default 16 MiB.
    pub fn stream_receive_window(&mut self, bytes: u32) -> &mut Self {
        self.stream_receive_window = bytes;
        self
    }

    /// The same for the whole connection. Default 32 MiB.
    pub fn receive_window(&mut self, bytes: u32) -> &mut Self {
        self.receive_window = bytes;
        self
    }

    /// Bytes a connection holds for sending before writes wait. Default 32 MiB: RLP can only send what is here.
    pub fn send_window(&mut self, bytes: u64) -> &mut Self {
        self.send_window = bytes;
        self
    }

    /// Bidirectional streams the peer may have open at once. Default 100.
    pub fn max_concurrent_bidi_streams(&mut self, count: u32) -> &mut Self {
        self.max_concurrent_bidi_streams = count;
        self
    }

    /// Unidirectional streams the peer may have open at once. Default 100.
    pub fn max_concurrent_uni_streams(&mut self, count: u32) -> &mut Self {
        self.max_concurrent_uni_streams = count;
        self
    }

    /// Silence after which a connection is given up. Default 30 s; `None`: never.
    pub fn max_idle_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.max_idle_timeout = timeout;
        self
    }

    /// How often to send something on an otherwise silent connection. Default: never.
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        self.keep_alive_interval = interval;
        self
    }

    /// Round-trip time assumed before the first sample. Default 333 ms (RFC 9002 §6.2.2).
    pub fn initial_rtt(&mut self, rtt: Duration) -> &mut Self {
        self.initial_rtt = rtt;
        self
    }

    /// UDP payload in bytes that is assumed to pass. Default 1200 (RFC 9000 §14).
    pub fn initial_mtu(&mut self, bytes: u16) -> &mut Self {
        self.initial_mtu = bytes.max(1200);
        self
    }

    /// Whether to look for a larger path MTU (RFC 8899). Default: yes; simulations that fix it say no.
    pub fn mtu_discovery(&mut self, enabled: bool) -> &mut Self {
        self.mtu_discovery = enabled;
        self
    }
}

/// What a client needs to connect.
#[derive(Clone)]
pub struct ClientConfig {
    pub(crate) crypto: Arc<rustls::ClientConfig>,
    pub(crate) transport: Arc<TransportConfig>,
}

impl ClientConfig {
    /// TLS 1.3 settings with default transport settings.
    ///
    /// `crypto.alpn_protocols` holds the application's own names; the rc3 variant of each is offered before it.
    pub fn new(crypto: Arc<rustls::ClientConfig>) -> Self {
        Self { crypto, transport: Arc::default() }
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// What an endpoint needs to accept connections.
#[derive(Clone)]
pub struct ServerConfig {
    pub(crate) crypto: Arc<rustls::ServerConfig>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) migration: bool,
    pub(crate) max_incoming: usize,
    pub(crate) retry_incoming_from: usize,
    pub(crate) incoming_buffer_size: u64,
    pub(crate) incoming_buffer_size_total: u64,
    pub(crate) retry_token_lifetime: Duration,
}

impl ServerConfig {
    /// TLS 1.3 settings with default transport settings; for ALPN see [`ClientConfig::new`].
    pub fn with_crypto(crypto: Arc<rustls::ServerConfig>) -> Self {
        Self {
            crypto,
            transport: Arc::default(),
            migration: true,
            // Some 4 KB each: 16 MB at most wait for a server that does not get round to accepting.
            max_incoming: 4096,
            retry_incoming_from: 512,
            incoming_buffer_size: 1 << 20,
            incoming_buffer_size_total: 32 << 20,
            retry_token_lifetime: Duration::from_secs(15),
        }
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// Whether clients may change their address. Default: yes.
    pub fn migration(&mut self, allowed: bool) -> &mut Self {
        self.migration = allowed;
        self
    }

    /// Handshakes that may wait for an answer at once; more are refused. Default 4096.
    pub fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.max_incoming = count;
        self
    }

    /// While this many handshakes wait for an answer, each new one is asked by a Retry packet to show that it
    /// receives at its address (RFC 9000 §8.1.2), which costs it a round trip and us no memory. So a flood under
    /// made-up addresses takes this many places and no more. Default 512; 0 asks everybody.
    pub fn retry_incoming_from(&mut self, count: usize) -> &mut Self {
        self.retry_incoming_from = count;
        self
    }

    /// Bytes of datagrams kept for one handshake that waits for an answer. Default 1 MiB.
    pub fn incoming_buffer_size(&mut self, bytes: u64) -> &mut Self {
        self.incoming_buffer_size = bytes;
        self
    }

    /// The same for all of them together. Default 32 MiB.
    pub fn incoming_buffer_size_total(&mut self, bytes: u64) -> &mut Self {
        self.incoming_buffer_size_total = bytes;
        self
    }

    /// How long the token of a Retry packet is good for. Default 15 s.
    pub fn retry_token_lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.retry_token_lifetime = lifetime;
        self
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// ALPN prefix of this version of the protocol; `rc3/1+NAME` is the application protocol `NAME` over rc3.
const ALPN: &[u8] = b"rc3/1";

/// The names to offer: the rc3 variant of each of the application's, then these themselves.
pub(crate) fn alpn_offer(application: &[Vec<u8>], rlp: RlpMode) -> Vec<Vec<u8>> {
    if rlp == RlpMode::Off {
        return application.to_vec();
    }
    if application.is_empty() {
        return vec![ALPN.to_vec()];
    }
    let rc3 = application.iter().map(|name| [ALPN, b"+", name].concat());
    rc3.chain(application.iter().cloned()).collect()
}

/// Splits a negotiated name into whether rc3 is spoken and the application's own name.
pub(crate) fn alpn_parse(negotiated: &[u8]) -> (bool, Option<&[u8]>) {
    match negotiated.strip_prefix(ALPN) {
        Some([]) => (true, None),
        Some([b'+', name @ ..]) => (true, Some(name)),
        _ => (false, Some(negotiated)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpn_puts_rc3_first_and_keeps_the_plain_names() {
        let offer = alpn_offer(&[b"h3".to_vec(), b"hq".to_vec()], RlpMode::Trust);
        assert_eq!(offer, [&b"rc3/1+h3"[..], b"rc3/1+hq", b"h3", b"hq"]);
        assert_eq!(alpn_parse(&offer[0]), (true, Some(&b"h3"[..])));
        assert_eq!(alpn_parse(b"h3"), (false, Some(&b"h3"[..])));
        assert_eq!(alpn_parse(b"rc3/1"), (true, None));
        assert_eq!(alpn_parse(b"rc3/10"), (false, Some(&b"rc3/10"[..])));
        assert_eq!(alpn_offer(&[b"h3".to_vec()], RlpMode::Off), [b"h3"]);
    }
}
