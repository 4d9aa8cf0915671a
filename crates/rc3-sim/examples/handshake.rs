//! What a handshake costs by its keys and by the length of the server's chain, in virtual time.
//!
//! `cargo run -p rc3-sim --example handshake --features aws-lc-rs` prints a table: bytes of UDP payload each way until
//! the client is connected, the time until then, and that of 100 kB of a new and of a resumed connection, from its first
//! packet, over 100 Mbit/s x 40 ms. docs/QUIC.md has it.

use std::{sync::Arc, time::Duration};

use rc3_core::{ConnectionHandle, Dir, RlpMode, VarInt, crypto_provider, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig, identity::tls_with};
use rustls::{NamedGroup, crypto::CryptoProvider};

const BYTES: usize = 100_000;
const LIMIT: Duration = Duration::from_secs(10);

fn main() {
    println!(
        "| key exchange | certificate | client sends | server sends | connected | 100 kB, plain | 100 kB, rc3 | 0-RTT, rc3 |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for group in [NamedGroup::X25519, NamedGroup::X25519MLKEM768] {
        let mut provider = CryptoProvider::clone(&crypto_provider());
        if provider.kx_groups.iter().all(|known| known.name() != group) {
            println!("{group:?} needs the feature aws-lc-rs");
            continue;
        }
        if group == NamedGroup::X25519 {
            provider.kx_groups.retain(|known| known.name() == group);
        }
        let provider = Arc::new(provider);
        for length in [0, 4_000, 8_000] {
            row(&provider, group, length);
        }
    }
}

fn row(provider: &Arc<CryptoProvider>, group: NamedGroup, length: usize) {
    let [(sent, connected, plain, _), (_, _, rc3, early)] = [RlpMode::Off, RlpMode::Guard].map(|mode| {
        let rate = Rate::from_bits_per_second(100_000_000);
        let link = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 500_000);
        config.priority = false;
        config.client.rlp(mode);
        config.server.rlp(mode);
        let mut pair = Pair::new(config);
        pair.set_identity(tls_with(provider.clone(), &["sim"], length));

        let start = pair.now;
        let first = pair.connect();
        let up = |pair: &mut Pair| !pair.client.connection(first).unwrap().is_handshaking();
        assert!(pair.drive_until(LIMIT, up), "connected");
        let connected = pair.now - start;
        let server = pair.server.traffic.with(pair.client.address());
        let sent = [server.received, server.sent];
        let new = connected + flow(&mut pair, first);
        pair.drive_until(Duration::from_secs(1), |_| false);
        let now = pair.now;
        pair.client.with(first, |c| c.close(now, VarInt::from_u32(0), Default::default()));
        pair.drive();
        pair.server.accepted.clear();
        let second = pair.connect();
        assert!(pair.client.with(second, |c| c.begin_early()), "resumed");
        (sent, connected, new, flow(&mut pair, second))
    });
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    println!(
        "| {group:?} | {length} | {} | {} | {} | {} | {} | {} |",
        sent[0],
        sent[1],
        ms(connected),
        ms(plain),
        ms(rc3),
        ms(early)
    );
}

/// How long the server waits for [`BYTES`] on a new stream.
fn flow(pair: &mut Pair, client: ConnectionHandle) -> Duration {
    let start = pair.now;
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).expect("a stream");
    pair.client.with(client, |c| c.write(id, vec![7; BYTES].into())).expect("the window has room");
    pair.client.with(client, |c| c.finish(id)).expect("it is open");
    let mut read = 0;
    let whole = pair.drive_until(LIMIT, |pair| {
        let Some(&server) = pair.server.accepted.front() else { return false };
        while let Ok(Some(chunk)) = pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
            read += chunk.bytes.len();
        }
        read == BYTES
    });
    assert!(whole, "{read} bytes");
    pair.now - start
}
