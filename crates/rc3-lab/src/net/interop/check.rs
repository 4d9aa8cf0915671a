//! Whether a run did what its case asks for, by what the WAN saw and what rc3 or quinn wrote of their own side.

use std::{collections::BTreeSet, fs, path::Path};

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use ring::{
    aead::quic::{AES_128, AES_256, Algorithm, CHACHA20, HeaderProtectionKey},
    hkdf::{HKDF_SHA256, HKDF_SHA384, Prk},
};

use super::case::InteropCase;
use crate::net::wan::seen::Seen;

/// The certificate of the resumed case has more bytes than this; handshakes without it fewer.
const CERTIFICATE: u64 = 1000;
/// Bytes of Handshake packets that a long chain takes at least, as in the runner.
const CHAIN: u64 = 7500;
/// Bytes that a client may send in 1-RTT packets when its requests were in 0-RTT: half of their names, as in the runner.
const LATE: u64 = 5000;

/// What is wrong. `logs` are the folders of the client and the server.
pub(super) fn check(case: &InteropCase, seen: &Seen, logs: [&Path; 2]) -> Result<(), String> {
    let [client, server] = &seen.bytes;
    let (retry, connections) = (server[3] > 0, seen.handshakes.len());
    require(retry == (case.name == "retry"), || format!("Retry sent: {retry}"))?;
    require(connections == case.connections, || format!("{connections} handshakes"))?;
    let clients = |what: fn(&[std::net::SocketAddrV4; 2]) -> String| {
        seen.paths.iter().map(what).collect::<BTreeSet<_>>().len()
    };
    match case.name {
        "longrtt" => require(seen.initials > 1, || "one Initial packet of the client".to_owned()),
        "retry" => require(seen.tokens > 0, || "no Initial packet with a token".to_owned()),
        "resumption" => {
            let [first, second] = [0, 1].map(|nth| seen.handshakes[nth].1);
            require(second + CERTIFICATE < first, || {
                format!("handshakes of {first} and {second} bytes: not resumed")
            })
        }
        "zerortt" => {
            require(client[1] > 0, || "nothing in 0-RTT".to_owned())?;
            require(client[4] <= LATE, || format!("{} bytes in 1-RTT", client[4]))
        }
        "keyupdate" => {
            let phases = key_phases(logs, seen)?;
            require(phases == [true; 2], || {
                format!("packets of client and server with key phase 1: {phases:?}")
            })
        }
        "ecn" => ecn(seen, logs),
        "amplificationlimit" => {
            let sent = seen.handshakes[0].1;
            require(sent >= CHAIN, || format!("a chain of {sent} bytes"))?;
            // The runner lets up to the fourfold pass, too.
            let (over, came) = (seen.amplified, seen.unproven);
            require(over <= came, || format!("{over} bytes more than three times the {came} that came"))
        }
        "rebind-port" | "rebind-addr" | "connectionmigration" => {
            let paths = match case.name {
                "rebind-addr" => clients(|[client, _]| client.ip().to_string()),
                _ => clients(|path| format!("{path:?}")),
            };
            require(paths > 1, || "the server used one path".to_owned())?;
            let is_linkable = case.name == "connectionmigration" && seen.linkable > 0;
            require(!is_linkable, || "an old connection id on a new path".to_owned())?;
            in_qlogs(logs, "path_challenge")
        }
        _ => Ok(()),
    }
}

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Both sides mark their packets, and the qlog of rc3 has counts in acknowledgements of both.
fn ecn(seen: &Seen, logs: [&Path; 2]) -> Result<(), String> {
    for (side, [_, ect1, ect0, ce]) in ["client", "server"].into_iter().zip(seen.ecn) {
        require(ect0 + ect1 > 0 && ce == 0, || {
            format!("marks of the {side}: {ect1} ECT(1), {ect0} ECT(0), {ce} CE")
        })?;
    }
    for name in ["transport:packet_sent", "transport:packet_received"] {
        let counted =
            qlogs(logs).any(|text| text.lines().any(|line| line.contains(name) && line.contains("\"ect0\"")));
        require(counted, || format!("no count of marks in {name} of rc3"))?;
    }
    Ok(())
}

fn in_qlogs(logs: [&Path; 2], word: &str) -> Result<(), String> {
    require(qlogs(logs).any(|text| text.contains(word)), || format!("no {word} in the qlog of rc3"))
}

/// Those of rc3.
fn qlogs(logs: [&Path; 2]) -> impl Iterator<Item = String> {
    let folders = logs.map(|folder| fs::read_dir(folder.join("qlog")).into_iter().flatten());
    let files = folders.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    files
        .filter(|file| file.extension().is_some_and(|kind| kind == "sqlog"))
        .filter_map(|file| fs::read_to_string(file).ok())
}

/// Whether client and server sent packets of key phase 1 (RFC 9001 §6). The bit is behind header protection, whose keys
/// come from the secrets that one side has logged; they stay when keys are updated.
fn key_phases(logs: [&Path; 2], seen: &Seen) -> Result<[bool; 2], String> {
    let keys = logs.map(|folder| fs::read_to_string(folder.join("keys")).unwrap_or_default()).concat();
    let mut phases = [false; 2];
    for (side, label) in ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "].into_iter().enumerate() {
        let line = keys.lines().find(|line| line.starts_with(label));
        let secret = line.and_then(|line| HEX.decode(line.rsplit(' ').next()?.as_bytes()).ok());
        let secret = secret.ok_or("no secrets were logged")?;
        let firsts = unprotected(&secret, &seen.samples[side]).ok_or("headers are not readable")?;
        phases[side] = firsts.iter().filter(|first| *first & 0x04 != 0).count() * 10 > firsts.len();
    }
    Ok(phases)
}

/// First bytes without header protection, by the algorithm with which reserved bits are zero (RFC 9000 §17.3.1) in most
/// packets: RLP's datagrams are protected in another way.
fn unprotected(secret: &[u8], samples: &[String]) -> Option<Vec<u8>> {
    let algorithms: &[&'static Algorithm] =
        if secret.len() == 48 { &[&AES_256] } else { &[&AES_128, &CHACHA20] };
    algorithms.iter().find_map(|algorithm| {
        let hash = if secret.len() == 48 { HKDF_SHA384 } else { HKDF_SHA256 };
        let len = if *algorithm == &AES_128 { 16 } else { 32 };
        let prk = Prk::new_less_safe(hash, secret);
        let label = [&[0, len, 13][..], b"tls13 quic hp", &[0]].concat();
        let key = HeaderProtectionKey::from(prk.expand(&[&label], *algorithm).ok()?);
        let firsts = samples.iter().map(|sample| {
            let bytes = HEX.decode(sample.as_bytes()).ok()?;
            let mask = key.new_mask(&bytes[1..]).ok()?[0];
            Some(bytes[0] ^ mask & 0x1f)
        });
        let mut firsts: Vec<u8> = firsts.collect::<Option<_>>()?;
        let all = firsts.len();
        firsts.retain(|first| first & 0x18 == 0);
        (firsts.len() * 2 > all).then_some(firsts)
    })
}
