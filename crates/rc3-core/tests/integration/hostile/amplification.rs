//! Clients that forge their source address: until an address is validated, it gets at most three times what came from
//! it (RFC 9000 §8.1, §9.3).

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rc3_core::{
    ConnectionHandle, Dir, RlpMode, StreamId, VarInt,
    internals::wire::sack,
    units::{Receipt, Span},
};
use rc3_sim::{Crypto, Datagram, Impairments, LinkConfig, Pair, PairConfig};

use super::support::*;

const MODES: [RlpMode; 3] = [RlpMode::Guard, RlpMode::Trust, RlpMode::Off];

/// Bytes that the server has to send, more than any test waits for.
const DOWNLOAD: u64 = 60_000_000;

/// RFC 9000 §8.1.
const LIMIT: u64 = 3;

/// Duration of the attack.
const TIME: Duration = Duration::from_secs(10);

/// Additional allowance for another port of a client without RLP: one datagram each three seconds (docs/HARDENING.md).
const GRANTED: u64 = 4 * 1452;

fn victim(nth: u8) -> SocketAddr {
    ([203, 0, 113, nth], 999).into()
}

/// The claimed source of the client's datagrams, by number since the attack began; `None`: not sent.
type Forge = Box<dyn FnMut(usize, SocketAddr) -> Option<SocketAddr> + Send>;

/// A client that downloads from a server, and how its datagrams are forged.
struct Attack {
    pair: Pair,
    client: ConnectionHandle,
    server: ConnectionHandle,
    stream: StreamId,
    forge: Arc<Mutex<Option<Forge>>>,
}

impl Attack {
    /// The client has downloaded for three round trips.
    fn new(mode: RlpMode, crypto: Crypto) -> Self {
        Self::with_loss(mode, crypto, 0.0)
    }

    fn with_loss(mode: RlpMode, crypto: Crypto, loss: f64) -> Self {
        Self::over(mode, crypto, 100_000_000, loss)
    }

    fn over(mode: RlpMode, crypto: Crypto, bits_per_second: u64, loss: f64) -> Self {
        let rate = rc3_core::units::Rate::from_bits_per_second(bits_per_second);
        let impairments = Impairments::loss(loss);
        let link = LinkConfig { rate, delay: RTT / 2, impairments, seed: 5, ..LinkConfig::default() };
        let mut config = PairConfig { crypto, ..PairConfig::symmetric(link, 500_000) };
        config.server.rlp(mode);
        config.client.keep_alive_interval(Some(Duration::from_millis(500)));
        let mut pair = Pair::new(config);
        let (client, server) = connected(&mut pair);
        let forge = Arc::<Mutex<Option<Forge>>>::default();
        let tampering = forge.clone();
        let (mut nth, address) = (0, pair.client.address());
        pair.client.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
            let mut forge = tampering.lock().unwrap();
            let Some(forge) = &mut *forge else { return 1 };
            let source = forge(nth, address);
            nth += 1;
            datagram.meta.remote = source.unwrap_or(address);
            usize::from(source.is_some())
        }));
        let stream = pair.server.with(server, |c| c.open(Dir::Uni)).expect("a stream");
        pair.server.with(server, |c| c.set_send_window(256 << 20));
        let mut attack = Self { pair, client, server, stream, forge };
        attack.load(1_000_000);
        attack.download(RTT * 3);
        attack
    }

    /// The server has more to send, and the client requests it.
    fn load(&mut self, bytes: u64) {
        let Self { pair, client, server, stream, .. } = self;
        let id = pair.client.with(*client, |c| c.open(Dir::Uni)).expect("a stream");
        pair.client.with(*client, |c| c.write(id, vec![1].into())).unwrap();
        // The request, forged or not, arrives.
        pair.drive_until(RTT, |_| false);
        let data = vec![7; bytes as usize];
        assert_eq!(pair.server.with(*server, |c| c.write(*stream, data.into())), Ok(bytes as usize));
    }

    fn begin(&self, forge: impl FnMut(usize, SocketAddr) -> Option<SocketAddr> + Send + 'static) {
        *self.forge.lock().unwrap() = Some(Box::new(forge));
    }

    fn end(&self) {
        *self.forge.lock().unwrap() = None;
    }

    /// Lets the client read for a while; returns how much it has read.
    fn download(&mut self, time: Duration) -> usize {
        let Self { pair, client, .. } = self;
        let mut read = 0;
        pair.drive_until(time, |pair| {
            while let Some(id) = pair.client.with(*client, |c| c.accept(Dir::Uni)) {
                assert_eq!(id.dir(), Dir::Uni);
            }
            let id = StreamId::new(rc3_core::Side::Server, Dir::Uni, self.stream.index());
            while let Ok(Some(chunk)) = pair.client.with(*client, |c| c.read(id, usize::MAX, false)) {
                read += chunk.bytes.len();
            }
            false
        });
        read
    }

    /// No victim was flooded.
    fn check(&self, what: &str, victims: impl IntoIterator<Item = SocketAddr>) {
        let (mut received, mut beyond, mut own) = (0, 0, false);
        for victim in victims {
            own |= victim.ip() == self.pair.client.address().ip();
            let exchanged = self.pair.server.traffic.with(victim);
            received += exchanged.received;
            beyond += exchanged.sent.saturating_sub(LIMIT * exchanged.received);
            println!("{what}: {victim} was sent {} bytes for {}", exchanged.sent, exchanged.received);
        }
        assert!(received > 0, "{what}: nothing was forged");
        let rc3 = self.pair.server.connection(self.server).is_some_and(|connection| connection.is_rc3());
        let granted = if rc3 || !own { 0 } else { GRANTED };
        assert!(beyond <= granted, "{what}: {beyond} bytes beyond the limit");
    }
}

/// Runs an attack in each mode; the server may send to its victims for ten seconds.
fn in_each_mode(
    what: &str,
    victims: u8,
    forge: impl Fn(usize, SocketAddr) -> Option<SocketAddr> + Copy + Send + 'static,
) {
    thread::scope(|scope| {
        for mode in MODES {
            scope.spawn(move || {
                let mut attack = Attack::new(mode, Crypto::Tls);
                attack.begin(forge);
                attack.load(DOWNLOAD);
                attack.download(TIME);
                attack.check(&format!("{what}, {mode:?}"), (1..=victims).map(victim));
            });
        }
    });
}

#[test]
fn one_forged_datagram_and_then_silence_floods_nobody() {
    in_each_mode("one datagram", 1, |nth, _| (nth == 0).then(|| victim(1)));
}

#[test]
fn a_forged_datagram_now_and_then_floods_nobody() {
    in_each_mode("now and then", 1, |nth, own| Some(if nth % 10 == 0 { victim(1) } else { own }));
}

#[test]
fn all_datagrams_forged_flood_nobody() {
    in_each_mode("all", 1, |_, _| Some(victim(1)));
}

#[test]
fn changing_victims_with_each_datagram_floods_none_of_them() {
    in_each_mode("five victims in turn", 5, |nth, _| Some(victim(nth as u8 % 5 + 1)));
}

#[test]
fn victims_in_turn_with_the_own_address_are_not_flooded() {
    in_each_mode("own and victims in turn", 3, |nth, own| {
        Some(if nth % 2 == 0 { own } else { victim((nth / 2) as u8 % 3 + 1) })
    });
}

#[test]
fn another_port_of_the_same_address_is_not_flooded() {
    for mode in MODES {
        let mut attack = Attack::new(mode, Crypto::Tls);
        let other = SocketAddr::new(attack.pair.client.address().ip(), 4434);
        attack.begin(move |nth, own| (nth < 3).then_some(if nth == 0 { other } else { own }));
        attack.load(DOWNLOAD);
        attack.download(TIME);
        attack.check(&format!("another port, {mode:?}"), [other]);
        let mut attack = Attack::new(mode, Crypto::Tls);
        attack.begin(move |nth, _| (nth == 0).then_some(other));
        attack.load(DOWNLOAD);
        attack.download(TIME);
        attack.check(&format!("another port and silence, {mode:?}"), [other]);
    }
}

#[test]
fn sacks_from_a_forged_address_do_not_open_it() {
    for mode in [RlpMode::Guard, RlpMode::Trust] {
        let mut attack = Attack::new(mode, Crypto::Tls);
        let mut lying = keys(&attack.pair, attack.client, true);
        attack.begin(|nth, _| (nth == 0).then(|| victim(1)));
        attack.load(DOWNLOAD);
        for end in (0..DOWNLOAD).step_by(1 << 20) {
            attack.download(Duration::from_millis(100));
            let number = VarInt::from(attack.stream).into_inner();
            let datagram = seal(&mut lying, |buf| {
                sack::emit(number, [(Span::new(end, end + (1 << 20)), Receipt(0))], 1000, buf);
            });
            attack.pair.server.inject(victim(1), &datagram);
        }
        attack.check(&format!("with SACKs, {mode:?}"), [victim(1)]);
    }
}

#[test]
fn path_frames_from_a_forged_address_are_answered_in_proportion() {
    const PATH_CHALLENGE: u8 = 0x1a;
    const PATH_RESPONSE: u8 = 0x1b;
    for (mode, frame) in MODES.into_iter().flat_map(|mode| [(mode, PATH_CHALLENGE), (mode, PATH_RESPONSE)]) {
        let mut attack = Attack::new(mode, Crypto::None);
        // Tags do not cover the payload there, so a frame can be inserted into a datagram of the same length.
        let address = attack.pair.client.address();
        let mut nth = 0_u64;
        attack.pair.client.set_tamper(Box::new(move |level, datagram: &mut Datagram| {
            const SHORT_HEADER: usize = 1 + 8 + 4;
            if level.is_primary() && datagram.contents.len() >= SHORT_HEADER + 9 + 16 {
                nth += 1;
                let numbered = 1 + 8 + usize::from(datagram.contents[0] & 3) + 1;
                let end = datagram.contents.len() - 16;
                let payload = &mut datagram.contents[numbered..end];
                payload.fill(0);
                payload[0] = frame;
                payload[1..9].copy_from_slice(&nth.to_be_bytes());
                datagram.meta.remote = victim(1);
                return 1;
            }
            datagram.meta.remote = address;
            1
        }));
        attack.load(DOWNLOAD);
        attack.download(TIME);
        attack.check(&format!("frame {frame:#x}, {mode:?}"), [victim(1)]);
    }
}

/// RLP data with a gap after each byte, then a path change: the SACKs must not go to the victim.
#[test]
fn sacks_go_to_nobody_who_has_not_proved_an_address() {
    for mode in MODES {
        let rate = rc3_core::units::Rate::from_bits_per_second(100_000_000);
        let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 500_000);
        // A receiver that sends no RLP itself still uses rc3.
        config.server.rlp(mode).congestion(rc3_core::Congestion::KickAss);
        let mut pair = Pair::new(config);
        let (client, server) = connected(&mut pair);
        let mut gaps = keys(&pair, client, true);
        // The honest half of this client does not know the receipts of what the other half forges.
        let tap = Tap::default();
        tap.lock().lose_low = true;
        pair.server.set_tamper(tap.tamper());
        for nth in 0..600 {
            let datagram = seal(&mut gaps, data(STREAM, 2 * nth, None, b"x"));
            pair.server.inject(pair.client.address(), &datagram);
        }
        pair.drive_until(RTT, |_| false);
        let moved = victim(1);
        pair.client.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
            datagram.meta.remote = moved;
            1
        }));
        pair.client.with(client, |c| c.force_key_update());
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).expect("a stream");
        pair.client.with(client, |c| c.write(id, vec![1].into())).unwrap();
        pair.drive_until(RTT, |_| false);
        for nth in 600..1200 {
            let datagram = seal(&mut gaps, data(STREAM, 2 * nth, None, b"x"));
            pair.server.inject(moved, &datagram);
            pair.drive_until(Duration::from_millis(1), |_| false);
        }
        assert!(pair.server.connection(server).unwrap().lost().is_none());
        let exchanged = pair.server.traffic.with(moved);
        assert!(exchanged.received > 0);
        assert!(exchanged.sent <= LIMIT * exchanged.received, "{mode:?}: {exchanged:?}");
    }
}

#[test]
fn validation_that_fails_goes_back_to_the_old_path() {
    for mode in MODES {
        let mut attack = Attack::new(mode, Crypto::Tls);
        // One of the client's datagrams is copied from elsewhere, and overtakes.
        attack.begin(|nth, own| Some(if nth == 0 { victim(1) } else { own }));
        attack.load(DOWNLOAD);
        let read = attack.download(Duration::from_secs(1));
        // 100 Mbit/s, minus the primary's cost of a path change.
        assert!(read > 2_000_000, "{mode:?}: {read} bytes in a second after one forged datagram");
        attack.end();
        attack.download(Duration::from_secs(5));
        let address = attack.pair.client.address();
        assert_eq!(attack.pair.server.connection(attack.server).unwrap().remote_address(), address);
    }
}

/// A client that migrates during a download: how much it has read a while later.
fn after_a_move(mode: RlpMode, elsewhere: SocketAddr, notices: bool, time: Duration) -> usize {
    let mut attack = Attack::new(mode, Crypto::Tls);
    attack.load(DOWNLOAD);
    attack.download(RTT);
    attack.pair.client.set_address(elsewhere);
    if notices {
        let now = attack.pair.now;
        attack.pair.client.endpoint().handle_local_address_change(now);
    }
    attack.download(time)
}

#[test]
fn a_client_behind_a_rebound_nat_goes_on() {
    for mode in MODES {
        for elsewhere in ["10.0.0.1:5555", "10.0.7.7:4433"] {
            // Without RLP a peer that sends next to nothing from another address cannot be asked for more.
            let silent = mode == RlpMode::Off && !elsewhere.starts_with("10.0.0.1");
            let time = Duration::from_secs(if silent { 12 } else { 3 });
            let read = after_a_move(mode, elsewhere.parse().unwrap(), false, time);
            println!("{mode:?}: {read} bytes in {time:?} after {elsewhere}");
            assert!(read > 10_000_000, "{mode:?}: {read} bytes in {time:?} after {elsewhere}");
        }
    }
}

/// As in quic-interop-runner: few acknowledgements are on their way, each short, and nothing follows them.
#[test]
fn a_client_behind_a_nat_that_rebinds_each_five_seconds_goes_on() {
    let mut attack = Attack::over(RlpMode::Off, Crypto::Tls, 10_000_000, 0.0);
    attack.load(DOWNLOAD);
    for port in 5001..5004 {
        attack.pair.client.set_address(([10, 0, 0, 1], port).into());
        let read = attack.download(Duration::from_secs(5));
        assert!(read > 4_000_000, "{read} bytes in five seconds behind port {port}");
    }
}

/// A PATH_RESPONSE shows that the address is validated, also when no whole packet is allowed there: some peers send it in a
/// datagram of less than 1200 bytes (as quic-go does), and then little else.
#[test]
fn a_short_path_response_is_enough() {
    const HEADER_MAX: usize = 1 + 8 + 4;
    const PATH_RESPONSE: u8 = 0x1b;
    const FRAME: usize = 9;
    let mut attack = Attack::over(RlpMode::Off, Crypto::None, 10_000_000, 0.0);
    attack.load(DOWNLOAD);
    attack.download(Duration::from_millis(100));
    let elsewhere = SocketAddr::from(([10, 0, 0, 1], 5001));
    attack.pair.client.set_address(elsewhere);
    let mut response = None;
    attack.pair.client.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
        datagram.meta.remote = elsewhere;
        let numbered = 1 + 8 + usize::from(datagram.contents[0] & 3) + 1;
        let end = datagram.contents.len() - 16;
        if datagram.contents.len() >= 1200 {
            let frame =
                datagram.contents[numbered..end].windows(FRAME).find(|frame| frame[0] == PATH_RESPONSE);
            response = frame.map(<[u8]>::to_vec).or_else(|| response.take());
            return 0;
        }
        // Tags do not cover the payload, so the frame fits into the next datagram that is long enough.
        if datagram.contents.len() >= HEADER_MAX + FRAME + 16
            && let Some(frame) = response.take()
        {
            let payload = &mut datagram.contents[numbered..end];
            payload.fill(0);
            payload[..FRAME].copy_from_slice(&frame);
        }
        1
    }));
    let read = attack.download(Duration::from_secs(1));
    assert_eq!(attack.pair.server.connection(attack.server).unwrap().remote_address(), elsewhere);
    assert!(read > 100_000, "{read} bytes in a second");
}

#[test]
fn a_client_that_moves_goes_on() {
    for mode in MODES {
        let read = after_a_move(mode, "10.0.7.7:4433".parse().unwrap(), true, Duration::from_secs(3));
        println!("{mode:?}: {read} bytes in three seconds after a move");
        assert!(read > 10_000_000, "{mode:?}: {read} bytes in three seconds");
    }
}

#[test]
fn a_client_that_moves_under_loss_goes_on_and_rlp_with_it() {
    for mode in [RlpMode::Guard, RlpMode::Trust] {
        let mut attack = Attack::with_loss(mode, Crypto::Tls, 0.05);
        let elsewhere = "10.0.7.7:4433".parse().unwrap();
        attack.pair.client.set_address(elsewhere);
        attack.download(Duration::from_secs(5));
        let by_rlp = |attack: &Attack| {
            let sent = attack.pair.server.connection(attack.server).unwrap().stats().sent;
            sent.levels.iter().map(|level| level.delivered_bytes).sum::<u64>()
        };
        let before = by_rlp(&attack);
        attack.load(1_000_000);
        let read = attack.download(Duration::from_secs(5));
        assert!(read >= 1_000_000, "{mode:?}: {read} bytes");
        assert_eq!(attack.pair.server.connection(attack.server).unwrap().remote_address(), elsewhere);
        let more = by_rlp(&attack) - before;
        assert!(more > 200_000, "{mode:?}: RLP delivered {more} bytes on the new path");
    }
}

/// An address that sends datagrams, and receives nothing for a second and a half.
#[test]
fn an_address_that_answers_late_is_served_once_it_answers() {
    for mode in MODES {
        let mut attack = Attack::new(mode, Crypto::Tls);
        let elsewhere = victim(1);
        attack.begin(move |_, _| Some(elsewhere));
        attack.load(DOWNLOAD);
        attack.download(Duration::from_millis(1500));
        attack.check(&format!("late, {mode:?}"), [elsewhere]);
        attack.pair.client.set_address(elsewhere);
        let read = attack.download(TIME);
        assert!(read > 10_000_000, "{mode:?}: {read} bytes");
        assert_eq!(attack.pair.server.connection(attack.server).unwrap().remote_address(), elsewhere);
    }
}

/// The end of the handshake and a forged datagram arrive together, before the endpoint has processed either.
#[test]
fn an_address_forged_right_behind_the_handshake_is_not_taken_for_proven() {
    for mode in MODES {
        let rate = rc3_core::units::Rate::from_bits_per_second(100_000_000);
        let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 500_000);
        config.server.rlp(mode);
        let mut pair = Pair::new(config);
        let client = pair.connect();
        // The client's answer to the server's flight is held back.
        pair.drive_until(RTT * 3 / 4, |_| false);
        let tap = Tap::default();
        tap.lock().lose_all = true;
        pair.client.set_tamper(tap.tamper());
        pair.drive_until(RTT / 2, |pair| !pair.client.connection(client).unwrap().is_handshaking());
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).expect("a stream");
        pair.client.with(client, |c| c.write(id, vec![1].into())).unwrap();
        pair.drive_until(RTT / 4, |_| false);
        let seen: Vec<_> = tap.lock().seen.iter().map(|(_, datagram)| datagram.clone()).collect();
        assert!(seen.len() >= 2, "{} datagrams", seen.len());
        let (own, last) = (pair.client.address(), seen.len() - 1);
        let now = pair.now;
        let batch = seen.iter().enumerate().map(|(nth, datagram)| {
            let remote = if nth == last { victim(1) } else { own };
            let meta =
                rc3_core::DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
            (meta, bytes::BytesMut::from(&datagram[..]))
        });
        pair.server.endpoint().handle_datagrams(now, batch);
        pair.drive_until(Duration::from_millis(1), |_| false);
        let server = pair.server.accepted[0];
        assert!(!pair.server.connection(server).unwrap().is_handshaking());
        let stream = pair.server.with(server, |c| c.open(Dir::Uni)).expect("a stream");
        pair.server.with(server, |c| c.write(stream, vec![7; 3_000_000].into())).unwrap();
        pair.drive_until(TIME, |_| false);
        let sent = pair.server.traffic.with(victim(1)).sent;
        assert!(sent <= LIMIT * seen[last].len() as u64, "{mode:?}: {sent} bytes");
    }
}

/// First packets of handshakes under a forged address, with and without a server that requires tokens.
#[test]
fn handshakes_begun_for_somebody_else_do_not_flood_him() {
    for retry in [false, true] {
        let mut pair = world();
        let tap = Tap::default();
        tap.lock().lose_all = true;
        pair.client.set_tamper(tap.tamper());
        for _ in 0..50 {
            pair.connect();
        }
        pair.drive_until(Duration::from_millis(1), |_| false);
        let first: Vec<_> = tap.lock().seen.iter().map(|(_, datagram)| datagram.clone()).collect();
        assert_eq!(first.len(), 50);
        if retry {
            // A server under load does this from a number of handshakes on.
            let (_, mut server) = Crypto::Tls.identity(&["sim"]);
            server.retry_incoming_from(0);
            pair.server.endpoint().set_server_config(Some(&server)).unwrap();
        }
        for datagram in &first {
            pair.server.inject(victim(1), datagram);
        }
        pair.drive_until(TIME, |_| false);
        let exchanged = pair.server.traffic.with(victim(1));
        println!("handshakes, retry {retry}: {exchanged:?}");
        assert!(exchanged.sent > 0);
        assert!(exchanged.sent <= LIMIT * exchanged.received, "retry {retry}: {exchanged:?}");
    }
}
