//! Kick-Ass between real sockets: Figs. 8 to 11 of NU-EECS-16-09, through `kickass forward`.
//!
//! On-off senders in one network namespace, their receiver in another. All runs of a figure have the same sizes and
//! silences. `figures` has what is drawn and printed of `results`.

mod figures;
mod results;

use std::{net::SocketAddr, time::Duration};

use rc3_picture::chart::Colour;

use self::results::ForwarderRun;
use super::{
    act::{
        Job,
        load::{Load, Traffic},
    },
    error::NetError,
    forward::{ForwardedPort, Forwarder, address},
    namespace::Namespace,
    process::Process,
    run::Lab,
    scheme::{HostPair, PORT, Scheme, Server},
    transport::Transport,
};
use crate::document::Document;

/// What a run differs in.
#[derive(Debug, Clone, Copy)]
struct RunSetting {
    /// What people call it.
    title: &'static str,
    colour: Colour,
    /// Senders take them in turn.
    schemes: &'static [Transport],
    /// Further keys of the port to the receiver.
    keys: &'static str,
}

const fn setting(
    title: &'static str,
    colour: Colour,
    schemes: &'static [Transport],
    keys: &'static str,
) -> RunSetting {
    RunSetting { title, colour, schemes, keys }
}

const CUBIC: RunSetting = setting("CUBIC, drop-tail", Colour::Vermillion, &[Transport::Tcp], "");
const FQ_CODEL: RunSetting = setting("CUBIC, FQ-CoDel with ECN", Colour::Orange, &[Transport::Tcp], ECN);
const PCC: RunSetting = setting("rc3, PCC", Colour::Black, &[Transport::Rc3Pcc], "");
const NEWRENO: RunSetting = setting("rc3, NewReno", Colour::Grey, &[Transport::Rc3Newreno], "");
const KICKASS: RunSetting = setting("rc3, Kick-Ass", Colour::Blue, &[Transport::Rc3Kickass], SIGNALS);
/// The values that the authors of RCP use for completion times.
const KICKASS_FCT: RunSetting =
    setting("rc3, Kick-Ass, other RCP", Colour::Purple, &[Transport::Rc3Kickass], OTHER_RCP);
const RLP: RunSetting = setting("rc3, NewReno and RLP", Colour::Green, &[Transport::Rc3NewrenoRlp], PRIORITY);
const KICKASS_RLP: RunSetting =
    setting("rc3, Kick-Ass and RLP", Colour::Sky, &[Transport::Rc3KickassRlp], PRIORITY_AND_SIGNALS);
/// Those that have the port for themselves, in the order of the tables.
const ALL: [RunSetting; 8] = [CUBIC, FQ_CODEL, PCC, NEWRENO, KICKASS, KICKASS_FCT, RLP, KICKASS_RLP];
/// Kernel TCP alone at a port with signals, and with Kick-Ass at every other sender.
const ALONE: RunSetting = setting("TCP alone", Colour::Vermillion, &[Transport::Tcp], SIGNALS);
const SHARED: RunSetting =
    setting("TCP beside Kick-Ass", Colour::Blue, &[Transport::Tcp, Transport::Rc3Kickass], SIGNALS);

/// Kernel TCP uses ECN where the queue marks.
const ECN: &str = "queue = { kind = \"fq-codel\", ecn = true }";
const SIGNALS: &str = "kickass = {}";
const OTHER_RCP: &str = "kickass = { rcp = { alpha = 0.1, beta = 1.0 } }";
const PRIORITY: &str = "queue = { kind = \"strict-priority\" }";
const PRIORITY_AND_SIGNALS: &str = "queue = { kind = \"strict-priority\" }\nkickass = {}";

/// Long flows through two routers, of which the first signals: the rate of its link, and whether others use the second.
const ACCESS: [(&str, Colour, &str, u64, bool); 3] = [
    ("10 Mbit/s access", Colour::Blue, "10mbit", 5_000_000, true),
    ("100 Mbit/s access", Colour::Vermillion, "100mbit", 20_000_000, true),
    ("100 Mbit/s access, no cross traffic", Colour::Green, "100mbit", 20_000_000, false),
];

/// Flows that began in time may take so much longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Fig. 8.
pub fn light(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs = testbed(lab, "kickass-fig8", &ALL, Load::Light, "100mbit", lab.options.time(60, 10))?;
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![figures::completion(&results::compared(&runs))])
}

/// Figs. 9 and 10.
pub fn heavy(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs = testbed(lab, "kickass-fig9", &ALL, Load::Heavy, "10mbit", lab.options.time(120, 20))?;
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let runs = results::compared(&runs);
    Ok(vec![figures::waiting(&runs), figures::throughput(&runs)])
}

/// Kernel TCP beside Kick-Ass.
pub fn shared(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs =
        testbed(lab, "kickass-shared", &[ALONE, SHARED], Load::Light, "100mbit", lab.options.time(60, 10))?;
    Ok(if let [alone, shared] = runs.as_slice() { vec![figures::shared(alone, shared)] } else { Vec::new() })
}

/// Fig. 11.
pub fn path(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let time = lab.options.time(40, 10);
    let mut runs = Vec::new();
    for (title, colour, rate, size, with_others) in ACCESS {
        let run = lab
            .attempt(&format!("kickass-fig11, {title}"), || over_two_routers(rate, size, with_others, time));
        runs.extend(run.map(|run| ForwarderRun { title, colour, ..run }));
    }
    results::keep(&mut lab.results, "kickass-fig11", &runs);
    Ok(if runs.is_empty() { Vec::new() } else { vec![figures::modes(&runs)] })
}

/// Eight senders through one router, once with each setting.
fn testbed(
    lab: &mut Lab,
    name: &str,
    settings: &[RunSetting],
    load: Load,
    rate: &str,
    time: Duration,
) -> Result<Vec<ForwarderRun>, NetError> {
    let (sender, receiver) = (host("sender")?, host("receiver")?);
    let mut runs = Vec::new();
    for setting in settings {
        let what = format!("{name}, {}", setting.title);
        let run = lab.attempt(&what, || {
            for host in [&sender, &receiver] {
                host.sysctl(&[if setting.keys == ECN {
                    "net.ipv4.tcp_ecn=1"
                } else {
                    "net.ipv4.tcp_ecn=0"
                }])?;
            }
            let keys = format!("buffer = \"1500k\"\n{}", setting.keys);
            let near = ForwardedPort::new("kick-a", &sender, 1, &[1], "1gbit", "50ms", "");
            let far = ForwardedPort::new("kick-b", &receiver, 2, &[2], rate, "50ms", &keys);
            let forwarder = Forwarder::start(&[near, far])?;
            let servers = serve(&sender, &receiver)?;
            let traffic = Traffic { time: Some(time), ..Traffic::of(load, 8) };
            let flows = self::load(&servers, &sender, setting.schemes, traffic)?.rest(time + PATIENCE)?;
            ForwarderRun::new(&flows, &forwarder.totals()?)
        });
        runs.extend(run.map(|run| ForwarderRun { title: setting.title, colour: setting.colour, ..run }));
    }
    results::keep(&mut lab.results, name, &runs);
    Ok(runs)
}

/// Two senders of long flows through two routers.
fn over_two_routers(
    rate: &str,
    size: u64,
    with_others: bool,
    time: Duration,
) -> Result<ForwarderRun, NetError> {
    let (sender, middle, receiver) = (host("sender")?, host("middle")?, host("receiver")?);
    middle.sysctl(&["net.ipv4.ip_forward=1"])?;
    let signals = "buffer = \"1500k\"\nkickass = {}";
    let access = Forwarder::start(&[
        ForwardedPort::new("kick-a", &sender, 1, &[1], "1gbit", "5ms", ""),
        ForwardedPort::new("kick-m", &middle, 3, &[2, 3], rate, "5ms", signals),
    ])?;
    let _core = Forwarder::start(&[
        ForwardedPort::new("kick-n", &middle, 4, &[1, 4], "1gbit", "20ms", ""),
        ForwardedPort::new("kick-b", &receiver, 2, &[2], "100mbit", "20ms", "buffer = \"625k\""),
    ])?;
    let servers = serve(&sender, &receiver)?;
    // They stop with the long flows.
    let others = || load(&servers, &middle, &[Transport::Tcp], Traffic::of(Load::Light, 32));
    let _others = with_others.then(others).transpose()?;
    let traffic = Traffic { size: Some(size), time: Some(time), ..Traffic::of(Load::Light, 2) };
    let flows = load(&servers, &sender, &[Transport::Rc3Kickass], traffic)?.rest(time + PATIENCE)?;
    ForwarderRun::new(&flows, &access.totals()?)
}

/// A host to which each flow is one that was never seen before.
fn host(role: &str) -> Result<Namespace, NetError> {
    let host = Namespace::new(role)?;
    host.sysctl(&["net.ipv4.tcp_no_metrics_save=1"])?;
    Ok(host)
}

/// Starts receivers of rc3 and of kernel TCP at one address.
fn serve(sender: &Namespace, receiver: &Namespace) -> Result<[Server; 2], NetError> {
    let place = HostPair { sender, receiver, address: SocketAddr::from((address(2), PORT)), mtu: None };
    Ok([Scheme::own(Transport::Rc3)?.serve(&place)?, Scheme::own(Transport::Tcp)?.serve(&place)?])
}

/// Starts senders.
fn load(
    servers: &[Server; 2],
    host: &Namespace,
    transports: &[Transport],
    traffic: Traffic,
) -> Result<Process, NetError> {
    let job = Job::Load(servers[0].target.clone(), transports.to_vec(), traffic);
    let load = Process::job("load", host, &job)?;
    load.line()?;
    Ok(load)
}
