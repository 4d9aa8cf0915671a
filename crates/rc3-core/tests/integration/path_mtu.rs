//! What a search for the path MTU costs, by the MTU of the device and of the path: probes, lost ones, and time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_core::{
    ConnectionHandle, Dir, MtuDiscoveryConfig, ReadError, RlpMode, StreamId, TransportConfig, units::Rate,
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);

/// Longer than any search.
const TIME: Duration = Duration::from_secs(12);

/// MTU of the device and of the path, in bytes of IP packets.
const CASES: [(u16, u16); 5] = [(1500, 1500), (9000, 1500), (9000, 9000), (9000, 4000), (65_535, 1500)];

/// What one connection's search cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    probes: u64,
    lost: u64,
    /// Until the final length.
    time: Duration,
    /// The final length, in bytes of UDP payload.
    found: u16,
}

/// Bytes of the IP and UDP headers in the simulated network.
fn headers(pair: &Pair) -> u16 {
    if pair.server.address().is_ipv4() { 28 } else { 48 }
}

fn pair(change: impl Fn(&mut TransportConfig), path: u16) -> Pair {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(RlpMode::Off).initial_mtu(1200).mtu_discovery(false);
    }
    change(&mut config.client);
    config.batch = 64;
    let mut pair = Pair::new(config);
    let payload = usize::from(path - headers(&pair));
    pair.client.set_tamper(Box::new(move |_, datagram| usize::from(datagram.contents.len() <= payload)));
    pair
}

/// Connects, and sends a stream in each round trip.
fn search(pair: &mut Pair) -> Cost {
    let client = pair.connect();
    let begun = pair.now;
    let mut server: Option<ConnectionHandle> = None;
    let mut ids: Vec<StreamId> = Vec::new();
    let (mut found, mut time) = (0, Duration::ZERO);
    while pair.now < begun + TIME {
        let end = pair.now + RTT;
        pair.drive_until(RTT, |pair| pair.now >= end);
        server = server.or_else(|| pair.server.accepted.pop_front());
        let Some(server) = server else { continue };
        let id = pair.client.with(client, |c| {
            let id = c.open(Dir::Uni)?;
            c.write(id, vec![1; 5000].into()).ok()?;
            c.finish(id).ok()
        });
        assert!(id.is_some() || pair.now < begun + 4 * RTT);
        ids.extend(std::iter::from_fn(|| pair.server.with(server, |c| c.accept(Dir::Uni))));
        ids.retain(|&id| {
            loop {
                match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                    Ok(Some(_)) => {}
                    Err(ReadError::Blocked) => return true,
                    Ok(None) | Err(_) => return false,
                }
            }
        });
        let mtu = pair.client.connection(client).unwrap().stats().path.current_mtu;
        if mtu != found {
            (found, time) = (mtu, pair.now - begun);
        }
    }
    let path = pair.client.connection(client).unwrap().stats().path;
    assert_eq!(path.current_mtu, found);
    Cost { probes: path.sent_plpmtud_probes, lost: path.lost_plpmtud_probes, time, found }
}

#[test]
fn a_search_is_made_once_for_a_destination_and_loses_fewer_probes_than_quinn_protos() {
    println!("| device, path | search | probes | lost | ms | found |");
    for (device, path) in CASES {
        let mut theirs = pair(
            |client| {
                let mut discovery = MtuDiscoveryConfig::default();
                discovery.upper_bound(device - 28);
                client.mtu_discovery_config(Some(discovery));
            },
            path,
        );
        let headers = headers(&theirs);
        let theirs = search(&mut theirs);
        let mut ours = pair(|client| _ = client.path_mtu_max(device), path);
        let (first, second) = (search(&mut ours), search(&mut ours));
        for (name, cost) in [("quinn-proto's", theirs), ("first", first), ("later", second)] {
            let Cost { probes, lost, time, found } = cost;
            println!("| {device}, {path} | {name} | {probes} | {lost} | {} | {found} |", time.as_millis());
        }
        assert!(first.lost <= theirs.lost && first.time <= theirs.time, "{device}, {path}");
        assert!(first.found + 250 > path - headers, "{device}, {path}");
        assert!(
            (second.probes, second.lost, second.found) == (1, 0, first.found),
            "{device}, {path}: {second:?}"
        );
    }
}

#[test]
fn a_path_that_has_shrunk_is_searched_again() {
    let mut pair = pair(|client| _ = client.path_mtu_max(9000), 9000);
    assert!(search(&mut pair).found > 8900);
    let passes = Arc::new(AtomicUsize::new(1472));
    let limit = passes.clone();
    pair.client
        .set_tamper(Box::new(move |_, datagram| usize::from(datagram.contents.len() <= limit.load(Relaxed))));
    let disappointed = search(&mut pair);
    assert_eq!((disappointed.probes, disappointed.lost, disappointed.found), (3, 3, 1200));
    let again = search(&mut pair);
    assert!(again.lost > 3 && again.found > 1400, "{again:?}");
    passes.store(usize::MAX, Relaxed);
    assert_eq!(search(&mut pair).found, again.found, "ten minutes are not over");
    pair.now += Duration::from_secs(600);
    assert!(search(&mut pair).found > 8900);
}
