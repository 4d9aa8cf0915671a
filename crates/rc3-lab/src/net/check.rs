//! What a host needs for the laboratory, and what it has.

use std::{path::Path, process::Command};

use super::{error::NetError, namespace::Namespace, scheme::Scheme, transport::Transport, urgency};

/// Something the laboratory uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What.
    pub name: &'static str,
    /// What lacks without it; `None`: there is no laboratory without it.
    pub without: Option<&'static str>,
    /// Why it is not there; `None` if it is.
    pub missing: Option<String>,
    /// What to do then.
    pub hint: &'static str,
}

/// All requirements, in the order in which they depend on each other.
pub fn requirements(peers: Option<&Path>) -> Vec<Requirement> {
    let fail = |fails: bool, why: &str| fails.then(|| why.to_owned());
    let is_root = nix::unistd::geteuid().is_root();
    let ip = found("ip");
    let able = is_root && ip.is_none();
    let mut all = vec![
        needed("root", fail(!is_root, "this is another user"), "start it with sudo"),
        needed("ip", ip, "install iproute2"),
        needed("sysctl", found("sysctl"), "install procps"),
        needed(
            "TUN",
            fail(!Path::new("/dev/net/tun").exists(), "there is no /dev/net/tun"),
            "load the module tun",
        ),
    ];
    if able {
        all.extend(inside());
    }
    all.extend([
        Requirement {
            without: Some("WAN in time while other programs run"),
            ..needed(
                "chrt",
                fail(!urgency::has_real_time(), "chrt cannot give a real-time priority"),
                "install util-linux, start it as root",
            )
        },
        Requirement {
            without: Some("QUIC implementations of others"),
            ..needed(
                "rc3-peers",
                fail(peers.is_none(), "there is no rc3-peers beside this program"),
                "build peers/, see docs/LABORATORY.md",
            )
        },
    ]);
    all
}

/// What only a namespace shows.
fn inside() -> Vec<Requirement> {
    let hint = "use a kernel with CONFIG_NET_NS, outside of a container";
    let namespace = match Namespace::new("check") {
        Ok(namespace) => namespace,
        Err(error) => return vec![needed("network namespaces", Some(error.to_string()), hint)],
    };
    let fault = |done: Result<String, NetError>| done.err().map(|error| error.to_string());
    let veth = namespace.ip(["link", "add", "card", "type", "veth", "peer", "name", "far"]);
    let rules = namespace.ip(["rule", "add", "iif", "card", "lookup", "100"]);
    let htb = namespace.tc("qdisc add dev card root handle 1: htb default 10");
    let lacks_bbr = Scheme::own(Transport::TcpBbr).is_err();
    vec![
        needed("network namespaces", None, hint),
        needed("veth", fault(veth), "load the module veth"),
        needed("policy routing", fault(rules), "use a kernel with CONFIG_IP_MULTIPLE_TABLES"),
        Requirement {
            without: Some("card as fast as the link: card, fig15, fig16"),
            ..needed("tc and HTB", fault(htb), "install iproute2, load the module sch_htb")
        },
        Requirement {
            without: Some("the scheme tcp-bbr"),
            ..needed(
                "BBR of the kernel",
                lacks_bbr.then(|| "the kernel does not have it".to_owned()),
                "load the module tcp_bbr",
            )
        },
    ]
}

fn needed(name: &'static str, missing: Option<String>, hint: &'static str) -> Requirement {
    Requirement { name, without: None, missing, hint }
}

fn found(tool: &str) -> Option<String> {
    Command::new(tool).arg("-V").output().err().map(|error| error.to_string())
}

/// Nothing, if the laboratory can run.
///
/// # Errors
/// What is missing.
pub fn require(requirements: &[Requirement]) -> Result<(), NetError> {
    let missing: Vec<String> = requirements
        .iter()
        .filter(|requirement| requirement.without.is_none() && requirement.missing.is_some())
        .map(|requirement| requirement.name.to_owned())
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(NetError::Missing(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_stops_a_run() {
        let optional = Requirement {
            name: "tc and HTB",
            without: Some("cards"),
            missing: Some("no".to_owned()),
            hint: "install it",
        };
        assert!(require(std::slice::from_ref(&optional)).is_ok());
        let missing = needed("root", Some("this is another user".to_owned()), "sudo");
        let error = require(&[optional, missing, needed("ip", None, "")]).unwrap_err();
        assert_eq!(error.to_string(), "this host lacks root");
    }
}
