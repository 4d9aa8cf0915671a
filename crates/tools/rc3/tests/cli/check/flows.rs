//! The flows of `rc3 check` over loopback: as users run it, and against peers that violate the protocol. No assertion depends on the
//! machine's speed.

use std::{
    future::pending,
    net::{Ipv4Addr, SocketAddr},
    process::Output,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3::{
    check::{
        ALPN,
        comparison::Comparison,
        listen::CheckListener,
        message::{Hello, ReceiverCount, Reply, Request, VERSION},
        plan::{CheckPlan, SIZE_BYTES_MAX},
        progress::CheckProgress,
        report::CheckReport,
        visit::{VisitJob, visit},
    },
    error::{Error, ErrorKind},
    transfer::{
        identity::{self, Identity, SERVER_NAME},
        message,
        network::Network,
        progress::Style,
        ticket::{Secret, Ticket},
    },
};
use rc3_net::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, RlpMode, SendStream, ServerConfig,
    TransportConfig,
};
use serde_json::Value;

use crate::listener::{Listener as Listening, rc3};

/// Longer than anything takes that succeeds, shorter than a test may take.
const PATIENCE: Duration = Duration::from_secs(2);

fn check(listener: &Listening, flags: &[&str]) -> Output {
    rc3()
        .args(["check", "--only", "flows"])
        .args(flags)
        .env("RC3_TICKET", &listener.ticket)
        .output()
        .expect("it starts")
}

fn events(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn both_schemes_are_measured_in_both_directions() {
    let listening = Listening::start(&["127.0.0.1"]);
    // A listener serves several checks.
    for _ in 0..2 {
        let flags = ["--json", "--both", "--sizes", "10k,300k", "--runs", "2", "--seconds", "0"];
        let output = check(&listening, &flags);
        assert!(output.status.success(), "{output:?}");
        let events = events(&output);
        let flows = named(&events, "flow");
        let order: Vec<_> = flows
            .iter()
            .map(|flow| ["direction", "scheme"].map(|field| flow[field].as_str().unwrap()).join(" "))
            .collect();
        assert_eq!(order[..4], ["there plain", "there rc3", "back plain", "back rc3"]);
        assert_eq!((order.len(), &order[4..8]), (16, &order[..4]));
        for flow in flows {
            assert!(flow["fct_ms"].as_f64().is_some_and(|fct| fct > 0.0), "{flow}");
            let path = &flow["path"];
            let carried = ["primary_bytes", "rlp_delivered_bytes"].map(|field| path[field].as_u64().unwrap());
            assert!(carried.iter().sum::<u64>() >= flow["bytes"].as_u64().unwrap(), "{flow}");
            assert_eq!(path["verdict"].is_null(), flow["scheme"] == "plain", "{flow}");
        }
        let results = named(&events, "result");
        assert_eq!(results.len(), 4);
        for result in results {
            for scheme in ["plain", "rc3"] {
                let [least, median, most] = ["fct_ms_least", "fct_ms_median", "fct_ms_most"]
                    .map(|field| result[scheme][field].as_f64().unwrap());
                assert!(least <= median && median <= most, "{result}");
            }
        }
        assert_eq!(events.last().unwrap()["event"], "done");
    }
}

#[test]
fn bulk_rates_and_a_picture_come_with_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("fct.svg");
    let listening = Listening::start(&["127.0.0.1"]);
    let flags = ["--sizes", "10k,100k", "--runs", "1", "--seconds", "1", "--picture"];
    let output = check(&listening, &[&flags[..], &[picture.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for words in ["rc3/plain", "bulk rate over 1 s: plain QUIC ", "less half of the smallest round trip"] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    assert!(!text.contains("from the listener"), "{text}");
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(
        progress.contains("run 1: 10 kB to the listener, plain: ") && progress.contains(" left"),
        "{progress}"
    );
    assert!(std::fs::read_to_string(picture).unwrap().contains("</svg>"));
}

#[cfg(unix)]
#[test]
fn a_link_has_its_round_trips_and_is_known_unless_forgotten() {
    use rc3::emulator::{EmulatorConfig, LinkEmulator};
    let server = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let rate = rc3_core::units::Rate::from_bits_per_second(50_000_000).unwrap();
    let link =
        LinkEmulator::start(EmulatorConfig::new(rate, Duration::from_millis(10)), server).expect("a link");
    let flags = [&server.to_string(), "--advertise", &link.client_addr().to_string()].map(str::to_owned);
    let listening = Listening::start(&flags.each_ref().map(String::as_str));
    let check = |forget: bool| {
        let flags = ["--json", "--both", "--sizes", "300k", "--runs", "2", "--seconds", "0", "--forget"];
        let output = check(&listening, &flags[..flags.len() - usize::from(!forget)]);
        assert!(output.status.success(), "{output:?}");
        let events = events(&output);
        assert!(named(&events, "start")[0]["rtt_ms"].as_f64().is_some_and(|rtt| rtt >= 10.0));
        // Whether each second flow of rc3 knew the path.
        let mut known = Vec::new();
        for flow in named(&events, "flow") {
            // Connecting takes a round trip. The request of a flow from the listener takes half of one.
            let least = if flow["direction"] == "there" { 15.0 } else { 20.0 };
            assert!(flow["fct_ms"].as_f64().is_some_and(|fct| fct >= least), "{flow}");
            let path = &flow["path"];
            assert_eq!(path["rlp_delivered_bytes"] != 0, flow["scheme"] == "rc3", "{flow}");
            if flow["scheme"] == "rc3" && flow["run"] == 2 {
                known.push(path["remembered"] == true);
            } else {
                assert_eq!(path["remembered"], false, "{flow}");
            }
        }
        assert_eq!(known.len(), 2, "one in each direction");
        known
    };
    // On a starved machine a flow may end without a rate that is worth remembering.
    assert!((0..5).any(|_| check(false) == [true; 2]), "the first flow's rate is remembered");
    assert_eq!(check(true), [false; 2]);
}

#[test]
fn errors_have_their_exit_codes_and_hints() {
    let listening = Listening::start(&["127.0.0.1"]);
    let other = Listening::start(&["127.0.0.1"]);
    let code = |ticket: &str, flags: &[&str]| {
        let output = rc3()
            .args(["check", "--only", "flows"])
            .args(flags)
            .env("RC3_TICKET", ticket)
            .output()
            .expect("it starts");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("hint: "), "{said}");
        output.status.code()
    };
    // The address of one listener with the certificate of another.
    let (_, code_of_other) = other.ticket.split_once("/#").unwrap();
    let (address, _) = listening.ticket.split_once("/#").unwrap();
    assert_eq!(code(&format!("{address}/#{code_of_other}"), &[]), Some(4));
    assert_eq!(code("", &[]), Some(2));
    assert_eq!(code(&listening.ticket, &["--picture", "a.gif"]), Some(2));
}

/// A listener of this process.
async fn listener() -> Ticket {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = CheckListener::bind(&Network::default(), Some(here), PATIENCE).expect("a listener");
    let ticket = listener.ticket(None).expect("a ticket");
    tokio::spawn(listener.serve(|_| {}, pending()));
    ticket
}

fn plan(sizes: &[u64]) -> CheckPlan {
    CheckPlan { sizes: sizes.to_vec(), runs: 1, seconds: 0, both: true, forget: true }
}

/// An honest visitor.
async fn measure(ticket: &Ticket, plan: CheckPlan) -> Result<Comparison, Error> {
    let mut progress = CheckProgress::new(Style::Quiet, Some(&plan));
    let (ticket, plan, network) = (ticket.clone(), Some(plan), Network::default());
    let job = VisitJob { ticket, probes: false, plan, network, patience: PATIENCE };
    let mut report = CheckReport::default();
    visit(&job, &mut report, &mut progress).await?;
    Ok(report.comparison.expect("flows"))
}

/// Whether an honest visitor is served.
async fn is_free(ticket: &Ticket) {
    let comparison = measure(ticket, plan(&[1000])).await.expect("a check");
    assert_eq!(comparison.outcomes.len(), 4);
}

/// Whether an honest visitor is served this long after the one before has left.
async fn becomes_free(ticket: &Ticket, limit: Duration) {
    let deadline = Instant::now() + limit;
    while let Err(error) = measure(ticket, plan(&[1000])).await {
        assert!(Instant::now() < deadline, "{error}");
    }
}

/// The connection of a visitor that does as it likes.
struct Intruder {
    connection: Connection,
    _control: Option<SendStream>,
    replies: Option<RecvStream>,
    _endpoint: Endpoint,
}

impl Intruder {
    /// Connects, and says nothing.
    async fn silent(ticket: &Ticket) -> Self {
        let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
        let crypto = identity::client(Some(ticket.fingerprint()), ALPN).expect("settings");
        let to = SocketAddr::new(ticket.host().parse().expect("an address"), ticket.port());
        let mut transport = TransportConfig::default();
        transport.rlp(RlpMode::Off);
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let connecting = endpoint.connect_with(config, to, SERVER_NAME);
        let connection = connecting.expect("settings").await.expect("a connection");
        Self { connection, _control: None, replies: None, _endpoint: endpoint }
    }

    async fn with(ticket: &Ticket, hello: Hello) -> Self {
        let mut intruder = Self::silent(ticket).await;
        let (mut control, replies) = intruder.connection.open_bi().await.expect("a stream");
        control.write_all(&message::encode(&hello)).await.expect("written");
        (intruder._control, intruder.replies) = (Some(control), Some(replies));
        intruder
    }

    async fn asks(ticket: &Ticket, request: Request) -> Self {
        Self::with(ticket, Hello { version: VERSION, secret: ticket.secret().0, request }).await
    }

    /// A visitor whose plan is accepted, and its session.
    async fn accepted(ticket: &Ticket, plan: CheckPlan) -> (Self, u64) {
        let mut intruder = Self::asks(ticket, Request::Flows(plan)).await;
        match message::read(intruder.replies.as_mut().expect("open")).await {
            Ok(Reply::Accepted { session }) => (intruder, session),
            other => panic!("{other:?}"),
        }
    }

    /// Code and reason with which the listener closes.
    async fn closed(&self) -> (u64, String) {
        match self.connection.closed().await {
            ConnectionError::ApplicationClosed(close) => {
                (close.error_code.into_inner(), String::from_utf8(close.reason.to_vec()).expect("text"))
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn nobody_is_served_without_the_ticket() {
    let ticket = listener().await;
    let forged =
        Ticket::new(ticket.host(), ticket.port(), ticket.fingerprint(), Secret([0; 16])).expect("a ticket");
    let refused = measure(&forged, plan(&[1000])).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("rejects this host")));
    // A flow needs it too, and running flows.
    let request = Request::Flow { session: 0, nth: 0 };
    let (code, _) = Intruder::asks(&forged, request.clone()).await.closed().await;
    assert_eq!(code, 5);
    assert_eq!(Intruder::asks(&ticket, request).await.closed().await, (4, "this flow is not due".to_owned()));
    // Silent connections exclude nobody.
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(Intruder::silent(&ticket).await);
    }
    is_free(&ticket).await;
}

#[tokio::test]
async fn plans_beyond_the_bounds_and_other_versions_are_refused() {
    let ticket = listener().await;
    let endless = CheckPlan { runs: u32::MAX, ..plan(&[1]) };
    for plan in
        [plan(&[SIZE_BYTES_MAX + 1]), plan(&[1; 1000]), CheckPlan { seconds: 601, ..plan(&[1]) }, endless]
    {
        let intruder = Intruder::asks(&ticket, Request::Flows(plan)).await;
        assert_eq!(intruder.closed().await, (4, "the plan exceeds the bounds".to_owned()));
    }
    let secret = ticket.secret().0;
    let hello = Hello { version: VERSION + 1, secret, request: Request::Flows(plan(&[1])) };
    assert_eq!(Intruder::with(&ticket, hello).await.closed().await.0, 4);
    is_free(&ticket).await;
}

#[tokio::test]
async fn a_flow_of_another_size_or_content_ends_the_check() {
    let ticket = listener().await;
    for (bytes, reason) in [
        (vec![0; 2_000_000], "failed: protocol violation by peer: more bytes than agreed"),
        (vec![0; 1000], "failed: a flow arrived damaged"),
        (Vec::new(), "failed: protocol violation by peer: fewer bytes than agreed"),
    ] {
        let (visit, session) = Intruder::accepted(&ticket, plan(&[1000])).await;
        let flow = Intruder::asks(&ticket, Request::Flow { session, nth: 0 }).await;
        let mut stream = flow.connection.open_uni().await.expect("a stream");
        // The listener may close meanwhile.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.finish();
        let (code, said) = visit.closed().await;
        let damaged = said == "failed: a flow arrived damaged";
        assert!(code == 1 && (said == reason || damaged && bytes.len() > 1000), "{said}");
    }
    is_free(&ticket).await;
}

#[tokio::test]
async fn each_flow_is_served_once_and_in_its_turn() {
    let ticket = listener().await;
    let (visit, session) = Intruder::accepted(&ticket, plan(&[1000, 50_000_000])).await;
    // The last flow first, another session, and far beyond the plan.
    for request in [(session, 7), (session.wrapping_add(1), 0), (session, u32::MAX)] {
        let (session, nth) = request;
        let intruder = Intruder::asks(&ticket, Request::Flow { session, nth }).await;
        assert_eq!(intruder.closed().await.0, 4, "{nth}");
    }
    assert!(visit.connection.close_reason().is_none());
    let first = Intruder::asks(&ticket, Request::Flow { session, nth: 0 }).await;
    // The same again, while it runs.
    let again = Intruder::asks(&ticket, Request::Flow { session, nth: 0 }).await;
    assert_eq!(again.closed().await.0, 4);
    assert!(first.connection.close_reason().is_none());
}

#[tokio::test]
async fn silent_visitors_are_given_up() {
    let ticket = listener().await;
    // After the plan.
    let (visit, _session) = Intruder::accepted(&ticket, plan(&[1000])).await;
    assert_eq!(visit.closed().await, (1, "failed: no progress for 2 s".to_owned()));
    // In the middle of a flow.
    let (visit, session) = Intruder::accepted(&ticket, plan(&[1000])).await;
    let flow = Intruder::asks(&ticket, Request::Flow { session, nth: 0 }).await;
    let mut stream = flow.connection.open_uni().await.expect("a stream");
    stream.write_all(&pattern(1)).await.expect("written");
    assert_eq!(visit.closed().await, (1, "failed: no progress for 2 s".to_owned()));
    // A visitor that went away.
    drop(Intruder::accepted(&ticket, plan(&[1000])).await);
    is_free(&ticket).await;
}

#[tokio::test]
async fn a_visitor_that_reads_nothing_is_given_up() {
    // More than the window of plain QUIC for data that nobody reads, 4 MiB.
    const BYTES: usize = 8_000_000;
    let ticket = listener().await;
    let (visit, session) = Intruder::accepted(&ticket, plan(&[BYTES as u64])).await;
    let bytes = bytes::Bytes::from(pattern(BYTES));
    // The first two flows as agreed.
    for nth in [0, 1] {
        let mut flow = Intruder::asks(&ticket, Request::Flow { session, nth }).await;
        let mut stream = flow.connection.open_uni().await.expect("a stream");
        stream.send_file(bytes.clone(), BYTES as u64).await.expect("sent");
        let reply = message::read::<Reply>(flow.replies.as_mut().expect("open")).await;
        assert!(
            matches!(reply, Ok(Reply::Arrived(ReceiverCount { bytes, .. })) if bytes == BYTES as u64),
            "{reply:?}"
        );
    }
    let _flow = Intruder::asks(&ticket, Request::Flow { session, nth: 2 }).await;
    assert_eq!(visit.closed().await, (1, "failed: no progress for 2 s".to_owned()));
    is_free(&ticket).await;
}

/// The first bytes of every flow.
fn pattern(len: usize) -> Vec<u8> {
    let mut period = vec![0; 1_000_003];
    blake3::Hasher::new().update(b"rc3 check").finalize_xof().fill(&mut period);
    period.iter().copied().cycle().take(len).collect()
}

#[tokio::test]
async fn a_second_visitor_learns_that_the_listener_is_busy() {
    let ticket = listener().await;
    let (first, _session) = Intruder::accepted(&ticket, plan(&[1000])).await;
    let second = measure(&ticket, plan(&[1000])).await.expect_err("busy");
    assert_eq!(second.kind(), ErrorKind::Busy);
    first.connection.close(0u32.into(), b"done");
    // By the news that it has left, which takes a moment, not by its silence.
    becomes_free(&ticket, PATIENCE / 2).await;
}

/// A listener that accepts the plan, and answers the first flow from it with these bytes.
async fn lying_listener(bytes: Vec<u8>) -> Ticket {
    let identity = Identity::generate().expect("an identity");
    let config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN).expect("settings")));
    let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let port = endpoint.local_addr().expect("bound").port();
    let ticket = Ticket::new("127.0.0.1", port, identity.fingerprint(), Secret([1; 16])).expect("a ticket");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(incoming) = endpoint.accept().await {
            let connection = incoming.await.expect("a connection");
            let (mut control, mut requests) = connection.accept_bi().await.expect("a stream");
            let hello: Hello = message::read(&mut requests).await.expect("a message");
            let reply = match hello.request {
                Request::Flows(_) => Reply::Accepted { session: 1 },
                // The first two go to the listener.
                Request::Flow { nth: 0 | 1, .. } => {
                    Reply::Arrived(ReceiverCount { bytes: 0, seconds: f64::NAN })
                }
                Request::Probes => panic!("no probes"),
                Request::Flow { .. } => {
                    let mut stream = connection.open_uni().await.expect("a stream");
                    let _ = stream.write_all(&bytes).await;
                    let _ = stream.finish();
                    kept.push((connection, control, requests));
                    continue;
                }
            };
            control.write_all(&message::encode(&reply)).await.expect("written");
            if matches!(reply, Reply::Arrived(_)) {
                let mut stream = connection.accept_uni().await.expect("a stream");
                let _ = stream.read_to_end(2000).await;
            }
            kept.push((connection, control, requests));
        }
    });
    ticket
}

#[tokio::test]
async fn a_visitor_bounds_what_it_gets() {
    for (bytes, expected) in [
        (vec![0; 1000], "a flow arrived damaged"),
        (Vec::new(), "protocol violation by peer: fewer bytes than agreed"),
        (vec![0; 2_000_000], "protocol violation by peer: more bytes than agreed"),
    ] {
        let many = bytes.len() > 1000;
        let ticket = lying_listener(bytes).await;
        let error = measure(&ticket, plan(&[1000])).await.expect_err("a lie").to_string();
        assert!(error == expected || many && error == "a flow arrived damaged", "{error}");
    }
}

#[tokio::test]
async fn a_session_of_probes_ends_with_its_visitor() {
    let ticket = listener().await;
    let mut visitor = Intruder::asks(&ticket, Request::Probes).await;
    let reply = message::read::<Reply>(visitor.replies.as_mut().expect("open")).await;
    assert!(matches!(reply, Ok(Reply::Accepted { .. })), "{reply:?}");
    visitor.connection.close(0u32.into(), b"done");
    drop(visitor);
    // It sends no probe, so the listener serves others after some seconds.
    becomes_free(&ticket, Duration::from_secs(30)).await;
}
