//! What the page says besides the results.

/// Above the matrix.
pub(super) const HEAD: &str = "\
The cases of quic-interop-runner for QUIC version 1, in network namespaces, over a path of 10 Mbit/s x 30 ms with a queue \
of one bandwidth-delay product each way. `ok`: passed; `-`: the peer's endpoint does not have the case; numbers: Mbit/s of \
the file over the time of the client's process.";

/// Below it.
pub(super) const CHECKS: &str = "\
How each run is checked: all files arrive intact, the client exits with 0, and the WAN counts as many handshakes (ids of \
servers in Handshake packets) as expected, and Retry packets in `retry` only. The WAN also sees: a repeated Initial in \
`longrtt`; a token in `retry`; a second handshake without the certificate in `resumption`; 0-RTT packets, and little in \
1-RTT, in `zerortt`; ECT marks and no CE of both sides in `ecn`; a chain of 7500 bytes and at most four times what \
came, as the runner tolerates, in `amplificationlimit`; new addresses in `rebind-*`; and a new connection id in `connectionmigration`. The key \
phase in `keyupdate` is read with the header protection keys that rc3 logs. PATH_CHALLENGE and ACK with ECN counts are \
read in rc3's qlog. In `chacha20` rc3 offers and accepts only ChaCha20. In `connectionmigration` servers offer a preferred \
address, and rc3 and quinn as clients move to another port of their own. Not checked: the stream limit of other servers in \
`multiplexing`.";

/// Cases whose result is a number.
pub(super) fn is_measurement(case: &str) -> bool {
    matches!(case, "goodput" | "crosstraffic")
}

/// Why a case fails, as far as it is known: case, role of rc3, peer, explanation. An empty field matches everything.
const KNOWN: &[(&str, &str, &str, &str)] = &[
    ("rebind-addr", "server", "", FEW),
    ("handshakeloss", "server", "ngtcp2", UNLUCKY),
    ("handshakeloss", "server", "quic-go", UNLUCKY),
    ("handshakeloss", "server", "s2n-quic", UNLUCKY),
    ("handshakeloss", "client", "quinn", UNLUCKY),
    ("handshakeloss", "client", "s2n-quic", UNLUCKY),
    ("ecn", "", "aioquic", "aioquic's: it sends no ECN marks"),
    (
        "rebind-port",
        "client",
        "x-net",
        "x/net's: its server does not follow clients that move; quinn's clients see the same",
    ),
    ("rebind-addr", "client", "x-net", "x/net's: as rebind-port"),
    (
        "connectionmigration",
        "server",
        "ngtcp2",
        "quinn-proto's: it answers from the address of the handshake, so that clients that move to the preferred address hear \
         nothing; quinn fails in the same way",
    ),
    (
        "zerortt",
        "server",
        "rc3",
        "nobody's: RLP's datagrams look like 1-RTT packets, of which the WAN counts all",
    ),
];

const UNLUCKY: &str = "a matter of chance, of 30 % loss and clients that give a handshake up after 5 or 10 s; and quinn-proto's, which repeats \
     what is lost after a time that was doubled with each earlier loss of the handshake (docs/upstream, 0008)";

const FEW: &str = "rc3's: an address that is not validated is answered once three times its bytes allow a full packet \
                   (docs/DECISIONS.md, 81), and a client that only acknowledges may have sent less; a matter of chance";

/// Whose failure it is.
pub(super) fn whose(case: &str, role: &str, peer: &str) -> &'static str {
    let is = |known: &str, this: &str| known.is_empty() || known == this;
    let found = KNOWN.iter().find(|known| is(known.0, case) && is(known.1, role) && is(known.2, peer));
    found.map_or("not known", |known| known.3)
}
