//! The cases of quic-interop-runner for QUIC version 1, with its files, paths and limits.

use std::time::Duration;

use crate::net::{args::NetRunArgs, error::NetError, wan::meddling::Meddling};

/// One of them.
pub(super) struct InteropCase {
    pub(super) name: &'static str,
    /// `TESTCASE` of the client, and of the server.
    pub(super) asked: [&'static str; 2],
    /// How many files, and bytes of each.
    pub(super) files: Vec<usize>,
    /// Round-trip time in ms.
    pub(super) rtt: u64,
    pub(super) meddling: Meddling,
    /// Seconds that the client may take.
    pub(super) patience: u64,
    /// Connections that are expected.
    pub(super) connections: usize,
}

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// Those of `--cases`, or all.
///
/// # Errors
/// If there is no case of a name.
pub(super) fn chosen(args: &NetRunArgs) -> Result<Vec<InteropCase>, NetError> {
    let (mut cases, typed) = (all(args.quick), &args.cases);
    let known = || cases.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = typed.iter().find(|name| cases.iter().all(|case| case.name != **name)) {
        return Err(NetError::NoCase { name: name.clone(), known: known() });
    }
    cases.retain(|case| typed.is_empty() || typed.iter().any(|name| name == case.name));
    Ok(cases)
}

/// All, or shorter ones.
fn all(quick: bool) -> Vec<InteropCase> {
    let times = |usual, fewer| if quick { fewer } else { usual };
    let seconds = Duration::from_secs;
    let loss = |share| Meddling { lost: share, ..Meddling::default() };
    let corruption = |share| Meddling { corrupted: share, ..Meddling::default() };
    let rebinding = Some([seconds(1), seconds(5)]);
    // The first request passes, its repetitions do not.
    let dropped = Meddling { dropped: (2..=7).collect(), ..Meddling::default() };
    let sampled = Meddling { sampled: true, ..Meddling::default() };
    let blackhole = Meddling { outages: Some([seconds(5), seconds(2)]), ..Meddling::default() };
    let port = Meddling { rebinding, ..Meddling::default() };
    let address = Meddling { rebinding, readdressing: true, ..Meddling::default() };
    let many = times(50, 10);
    let connect_often = |name, meddling| InteropCase {
        connections: many,
        meddling,
        patience: 300,
        ..case(name, "multiconnect", &vec![KB; many])
    };
    vec![
        case("handshake", "handshake", &[KB]),
        case("transfer", "transfer", &[2 * MB, 3 * MB, 5 * MB]),
        InteropCase { rtt: 1500, ..case("longrtt", "handshake", &[KB]) },
        case("chacha20", "chacha20", &[3 * MB]),
        case("multiplexing", "transfer", &[32; 1999]),
        case("retry", "retry", &[10 * KB]),
        InteropCase { connections: 2, ..case("resumption", "resumption", &[5 * KB, 10 * KB]) },
        InteropCase { connections: 2, ..case("zerortt", "zerortt", &[32; 40]) },
        case("http3", "http3", &[5 * KB, 10 * KB, 500 * KB]),
        InteropCase { meddling: blackhole, ..case("blackhole", "transfer", &[10 * MB]) },
        InteropCase {
            asked: ["keyupdate", "transfer"],
            meddling: sampled,
            ..case("keyupdate", "", &[3 * MB])
        },
        case("ecn", "ecn", &[100 * KB]),
        InteropCase { meddling: dropped, ..case("amplificationlimit", "transfer", &[5 * KB]) },
        connect_often("handshakeloss", loss(0.3)),
        InteropCase { meddling: loss(0.02), ..case("transferloss", "transfer", &[2 * MB]) },
        connect_often("handshakecorruption", corruption(0.3)),
        InteropCase { meddling: corruption(0.02), ..case("transfercorruption", "transfer", &[2 * MB]) },
        InteropCase { meddling: port, ..case("rebind-port", "transfer", &[10 * MB]) },
        InteropCase { meddling: address, ..case("rebind-addr", "transfer", &[10 * MB]) },
        case("connectionmigration", "connectionmigration", &[2 * MB]),
        case("goodput", "transfer", &[10 * MB]),
        InteropCase { patience: 180, ..case("crosstraffic", "transfer", &[times(25, 10) * MB]) },
    ]
}

fn case(name: &'static str, asked: &'static str, files: &[usize]) -> InteropCase {
    InteropCase {
        name,
        asked: [asked; 2],
        files: files.to_vec(),
        rtt: 30,
        meddling: Meddling::default(),
        patience: 60,
        connections: 1,
    }
}
