//! Kick-Ass between real sockets: Figs. 8 to 11 of NU-EECS-16-09, through `kickass forward`.
//!
//! On-off senders in one network namespace, their receiver in another. All runs of a figure have the same sizes and
//! silences. `figures` has what is drawn and printed of `results`.

mod figures;
mod results;

use std::{net::SocketAddr, time::Duration};

use rc3_picture::chart::Colour;

use self::results::Run;
use super::{
    act::{
        Job,
        load::{Load, Traffic},
    },
    error::NetError,
    forward::{Forwarder, Port, address},
    namespace::Namespace,
    process::Process,
    run::Lab,
    scheme::{PORT, Place, Scheme, Server},
    transport::Transport,
};
use crate::document::Document;

/// What a run differs in.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// What people call it.
    title: &'static str,
    colour: Colour,
    /// Senders take them in turn.
    schemes: &'static [Transport],
    /// Whether kernel TCP uses ECN.
    ecn: bool,
    /// Further keys of the port to the receiver.
    keys: &'static str,
}

const CUBIC: Setting = Setting {
    title: "CUBIC, drop-tail",
    colour: Colour::Vermillion,
    schemes: &[Transport::Tcp],
    ecn: false,
    keys: NONE,
};
const FQ_CODEL: Setting = Setting {
    title: "CUBIC, FQ-CoDel with ECN",
    colour: Colour::Orange,
    ecn: true,
    keys: "queue = { kind = \"fq-codel\", ecn = true }",
    ..CUBIC
};
const PCC: Setting =
    Setting { title: "rc3, PCC", colour: Colour::Black, schemes: &[Transport::Rc3Pcc], ..CUBIC };
const NEWRENO: Setting =
    Setting { title: "rc3, NewReno", colour: Colour::Grey, schemes: &[Transport::Rc3Newreno], ..CUBIC };
const KICKASS: Setting = Setting {
    title: "rc3, Kick-Ass",
    colour: Colour::Blue,
    schemes: &[Transport::Rc3Kickass],
    keys: SIGNALS,
    ..CUBIC
};
/// The values that the authors of RCP use for completion times.
const KICKASS_FCT: Setting = Setting {
    title: "rc3, Kick-Ass, other RCP",
    colour: Colour::Purple,
    keys: "kickass = { rcp = { alpha = 0.1, beta = 1.0 } }",
    ..KICKASS
};
const RLP: Setting = Setting {
    title: "rc3, NewReno and RLP",
    colour: Colour::Green,
    schemes: &[Transport::Rc3NewrenoRlp],
    keys: "queue = { kind = \"strict-priority\" }",
    ..CUBIC
};
const KICKASS_RLP: Setting = Setting {
    title: "rc3, Kick-Ass and RLP",
    colour: Colour::Sky,
    schemes: &[Transport::Rc3KickassRlp],
    keys: "queue = { kind = \"strict-priority\" }\nkickass = {}",
    ..CUBIC
};
/// Those that have the port for themselves, in the order of the tables.
const ALL: [Setting; 8] = [CUBIC, FQ_CODEL, PCC, NEWRENO, KICKASS, KICKASS_FCT, RLP, KICKASS_RLP];
/// Kernel TCP alone at a port with signals, and with Kick-Ass at every other sender.
const ALONE: Setting = Setting { title: "TCP alone", keys: SIGNALS, ..CUBIC };
const SHARED: Setting = Setting {
    title: "TCP beside Kick-Ass",
    colour: Colour::Blue,
    schemes: &[Transport::Tcp, Transport::Rc3Kickass],
    ..ALONE
};

const NONE: &str = "";
const SIGNALS: &str = "kickass = {}";

/// Long flows through two routers, of which the first signals: the rate of its link, and whether others use the second.
const ACCESS: [(&str, Colour, &str, u64, bool); 3] = [
    ("10 Mbit/s access", Colour::Blue, "10mbit", 5_000_000, true),
    ("100 Mbit/s access", Colour::Vermillion, "100mbit", 20_000_000, true),
    ("100 Mbit/s access, no cross traffic", Colour::Green, "100mbit", 20_000_000, false),
];

/// Flows that began in time may take so much longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Fig. 8.
///
/// # Errors
/// If a process fails.
pub fn light(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs = testbed(lab, "kickass-fig8", &ALL, Load::Light, "100mbit", lab.options.time(60, 10))?;
    Ok(vec![figures::completion(&results::compared(&runs))])
}

/// Figs. 9 and 10.
///
/// # Errors
/// If a process fails.
pub fn heavy(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs = testbed(lab, "kickass-fig9", &ALL, Load::Heavy, "10mbit", lab.options.time(120, 20))?;
    let runs = results::compared(&runs);
    Ok(vec![figures::waiting(&runs), figures::throughput(&runs)])
}

/// Kernel TCP beside Kick-Ass.
///
/// # Errors
/// If a process fails.
pub fn shared(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let runs =
        testbed(lab, "kickass-shared", &[ALONE, SHARED], Load::Light, "100mbit", lab.options.time(60, 10))?;
    Ok(vec![figures::shared(&runs[0], &runs[1])])
}

/// Fig. 11.
///
/// # Errors
/// If a process fails.
pub fn path(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let time = lab.options.time(40, 10);
    let mut runs = Vec::new();
    for (title, colour, rate, size, with_others) in ACCESS {
        let run = lab.step(title, || over_two_routers(rate, size, with_others, time))?;
        runs.push(Run { title, colour, ..run });
    }
    results::keep(lab, "kickass-fig11", &runs);
    Ok(vec![figures::modes(&runs)])
}

/// Eight senders through one router, once with each setting.
fn testbed(
    lab: &mut Lab,
    name: &str,
    settings: &[Setting],
    load: Load,
    rate: &str,
    time: Duration,
) -> Result<Vec<Run>, NetError> {
    let (sender, receiver) = (host("sender")?, host("receiver")?);
    let mut runs = Vec::new();
    for setting in settings {
        let what = format!("{name}, {}", setting.title);
        let run = lab.step(&what, || {
            for host in [&sender, &receiver] {
                host.sysctl(&[if setting.ecn { "net.ipv4.tcp_ecn=1" } else { "net.ipv4.tcp_ecn=0" }])?;
            }
            let keys = format!("buffer = \"1500k\"\n{}", setting.keys);
            let near = Port { reaches: &[2], ..Port::new("kick-a", &sender, 1, &[1], "1gbit", "50ms", "") };
            let far = Port { reaches: &[1], ..Port::new("kick-b", &receiver, 2, &[2], rate, "50ms", &keys) };
            let forwarder = Forwarder::start(&[near, far])?;
            let servers = Servers::start(&sender, &receiver, PORT)?;
            let traffic = Traffic { time: Some(time), ..Traffic::of(load, 8) };
            let flows = servers.load(&sender, setting.schemes, traffic)?.rest(time + PATIENCE)?;
            Run::new(&flows, &forwarder.totals()?)
        })?;
        runs.push(Run { title: setting.title, colour: setting.colour, ..run });
    }
    results::keep(lab, name, &runs);
    Ok(runs)
}

/// Two senders of long flows through two routers.
fn over_two_routers(rate: &str, size: u64, with_others: bool, time: Duration) -> Result<Run, NetError> {
    let (sender, middle, receiver) = (host("sender")?, host("middle")?, host("receiver")?);
    middle.sysctl(&["net.ipv4.ip_forward=1"])?;
    let signals = "buffer = \"1500k\"\nkickass = {}";
    let access = Forwarder::start(&[
        Port { reaches: &[2], ..Port::new("kick-a", &sender, 1, &[1], "1gbit", "5ms", "") },
        Port { reaches: &[1], ..Port::new("kick-m", &middle, 3, &[2, 3], rate, "5ms", signals) },
    ])?;
    let _core = Forwarder::start(&[
        Port { reaches: &[2], ..Port::new("kick-n", &middle, 4, &[1, 4], "1gbit", "20ms", "") },
        Port {
            reaches: &[1, 4],
            ..Port::new("kick-b", &receiver, 2, &[2], "100mbit", "20ms", "buffer = \"625k\"")
        },
    ])?;
    let servers = Servers::start(&sender, &receiver, PORT)?;
    // They stop with the long flows.
    let others = || servers.load(&middle, &[Transport::Tcp], Traffic::of(Load::Light, 32));
    let _others = with_others.then(others).transpose()?;
    let traffic = Traffic { size: Some(size), time: Some(time), ..Traffic::of(Load::Light, 2) };
    let flows = servers.load(&sender, &[Transport::Rc3Kickass], traffic)?.rest(time + PATIENCE)?;
    Run::new(&flows, &access.totals()?)
}

/// A host to which each flow is one that was never seen before.
fn host(role: &str) -> Result<Namespace, NetError> {
    let host = Namespace::new(role)?;
    host.sysctl(&["net.ipv4.tcp_no_metrics_save=1"])?;
    Ok(host)
}

/// Receivers of rc3 and of kernel TCP at one address.
struct Servers {
    rc3: Server,
    _tcp: Server,
}

impl Servers {
    fn start(sender: &Namespace, receiver: &Namespace, port: u16) -> Result<Self, NetError> {
        let place = Place { sender, receiver, address: SocketAddr::from((address(2), port)), mtu: None };
        let serve = |transport| Scheme::own(transport)?.serve(&place);
        Ok(Self { rc3: serve(Transport::Rc3)?, _tcp: serve(Transport::Tcp)? })
    }

    /// Starts senders.
    fn load(
        &self,
        host: &Namespace,
        transports: &[Transport],
        traffic: Traffic,
    ) -> Result<Process, NetError> {
        let job = Job::Load(self.rc3.target.clone(), transports.to_vec(), traffic);
        let load = Process::job("load", host, &job)?;
        load.line()?;
        Ok(load)
    }
}
