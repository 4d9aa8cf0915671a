//! What this host's sockets support, and recommended settings.

use std::{
    fmt::Write as _,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    thread,
    time::Duration,
};

use rc3_net::{
    marks::DSCP_LOWER_EFFORT,
    socket::{LeadingLens, Options, Outgoing, PacketSocket, RecvBatch, Socket, Sockets},
};
use serde::{Serialize, Serializer};

use crate::transfer::mapping::default_route;

/// Longest wait for a datagram over loopback, in milliseconds.
const LOOPBACK_PATIENCE_MS: u32 = 200;

/// A buffer of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SocketBuffer {
    /// Bytes requested.
    pub asked: usize,
    /// Bytes granted.
    pub got: usize,
}

/// A recommended setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The problem.
    pub why: String,
    /// Commands to run as root.
    pub commands: Vec<String>,
}

/// This host.
#[derive(Debug, Clone, Serialize)]
pub struct HostReport {
    /// One system call sends many datagrams.
    pub gso: bool,
    /// One system call receives many.
    pub gro: bool,
    /// A DSCP survives over loopback; `None` if the host lacks the family.
    pub dscp_ipv4: Option<bool>,
    /// The same for IPv6.
    pub dscp_ipv6: Option<bool>,
    /// The system accepts queue priorities.
    pub so_priority: bool,
    /// Every packet can have its own at no cost.
    pub priority_cmsg: bool,
    /// Low-priority datagrams have their own socket and buffers.
    pub steering: bool,
    /// How the lengths of leading fragments are learned: `exact`, `concluded` or `unknown`.
    #[serde(serialize_with = "name")]
    pub leading_lens: LeadingLens,
    /// Receive buffer of each socket.
    pub receive: SocketBuffer,
    /// Send buffer of each socket.
    pub send: SocketBuffer,
    /// `net.core.default_qdisc`, if the system reports it.
    pub default_qdisc: Option<String>,
    /// Network device of the default route, if the system reports it.
    pub device: Option<String>,
    /// Recommended settings.
    pub advice: Vec<Advice>,
}

impl HostReport {
    /// Checks this host.
    ///
    /// # Errors
    /// When no socket can be created.
    pub fn look() -> io::Result<Self> {
        // Endpoints open a packet socket only when fragments arrive; opening one here is the only way to know whether
        // they could.
        let options = Options { packet_socket: PacketSocket::AtBind, ..Options::default() };
        let any = |ip: IpAddr| Sockets::bind(SocketAddr::new(ip, 0), &options);
        let sockets = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?;
        let can = sockets.primary.capabilities();
        // Linux reports twice the size it grants.
        let granted = |reported: usize| if cfg!(target_os = "linux") { reported / 2 } else { reported };
        let mut report = Self {
            gso: can.gso_segments_max > 1,
            gro: can.gro,
            dscp_ipv4: dscp_survives(Ipv4Addr::LOCALHOST.into()),
            dscp_ipv6: dscp_survives(Ipv6Addr::LOCALHOST.into()),
            so_priority: can.so_priority,
            priority_cmsg: can.priority_cmsg,
            steering: sockets.low.is_some(),
            leading_lens: can.leading_lens,
            receive: SocketBuffer { asked: options.recv_buffer, got: granted(can.recv_buffer) },
            send: SocketBuffer { asked: options.send_buffer, got: granted(can.send_buffer) },
            default_qdisc: fs::read_to_string("/proc/sys/net/core/default_qdisc")
                .ok()
                .map(|text| text.trim().to_owned()),
            device: fs::read_to_string("/proc/net/route")
                .ok()
                .and_then(|table| Some(default_route(&table)?.0.to_owned())),
            advice: Vec::new(),
        };
        report.advice = report.advise();
        Ok(report)
    }

    fn advise(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        for (buffer, what, sysctl) in
            [(self.receive, "receive", "net.core.rmem_max"), (self.send, "send", "net.core.wmem_max")]
        {
            if buffer.got < buffer.asked {
                advice.push(Advice {
                    why: format!(
                        "the {what} buffer has only {} of {} requested bytes: bursts will be lost",
                        buffer.got, buffer.asked
                    ),
                    commands: if cfg!(target_os = "linux") {
                        vec![format!("sysctl -w {sysctl}={}", buffer.asked)]
                    } else {
                        Vec::new()
                    },
                });
            }
        }
        if !self.steering {
            advice.push(Advice {
                why: "low-priority datagrams share the primary's socket: they can fill its buffer (steering needs \
                      Linux)"
                    .to_owned(),
                commands: Vec::new(),
            });
        }
        // These have a single class, or separate flows but not priorities.
        let blind = ["fq_codel", "sfq", "noqueue"];
        if let Some(qdisc) = self.default_qdisc.as_deref().filter(|qdisc| blind.contains(qdisc)) {
            let device = self.device.as_deref().unwrap_or("DEV");
            advice.push(Advice {
                why: format!(
                    "{qdisc} ignores priorities: queues on this host treat RLP like all other traffic"
                ),
                commands: vec![format!("tc qdisc replace dev {device} root handle 1: prio bands 3")],
            });
        }
        advice
    }

    pub(super) fn text(&self) -> String {
        let yes = |can: bool| if can { "yes" } else { "NO" };
        let family = |can: Option<bool>| can.map_or("family not available", yes);
        let leading_lens = match self.leading_lens {
            LeadingLens::Exact => "exact",
            LeadingLens::Concluded => "from the longest; exact needs CAP_NET_RAW",
            LeadingLens::Unknown => "NO",
        };
        let mut text = String::from("This host\n");
        let lines = [
            ("many datagrams per send (GSO)", yes(self.gso).to_owned()),
            ("many datagrams per receive (GRO)", yes(self.gro).to_owned()),
            ("DSCP over IPv4", family(self.dscp_ipv4).to_owned()),
            ("DSCP over IPv6", family(self.dscp_ipv6).to_owned()),
            ("queue priority (SO_PRIORITY)", yes(self.so_priority).to_owned()),
            ("  with each packet (Linux 6.14)", yes(self.priority_cmsg).to_owned()),
            ("own socket for low priority", yes(self.steering).to_owned()),
            ("lengths of leading fragments", leading_lens.to_owned()),
            ("receive buffer, bytes", format!("{} of {} requested", self.receive.got, self.receive.asked)),
            ("send buffer, bytes", format!("{} of {} requested", self.send.got, self.send.asked)),
            ("default queue discipline", self.default_qdisc.clone().unwrap_or_else(|| "unknown".to_owned())),
        ];
        for (what, state) in lines {
            let _ = writeln!(text, "  {what:<34} {state}");
        }
        text
    }

    /// What improves this host.
    pub(super) fn todo(&self) -> impl Iterator<Item = String> {
        self.advice.iter().map(|Advice { why, commands }| match commands.as_slice() {
            [] => why.clone(),
            commands => format!("run as root `{}`: {why}", commands.join("; ")),
        })
    }
}

fn name<S: Serializer>(leading_lens: &LeadingLens, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match leading_lens {
        LeadingLens::Exact => "exact",
        LeadingLens::Concluded => "concluded",
        LeadingLens::Unknown => "unknown",
    })
}

/// Whether a marked datagram sent to this host arrives with its mark.
fn dscp_survives(ip: IpAddr) -> Option<bool> {
    let address = SocketAddr::new(ip, 0);
    let sender = Socket::bind_plain(address, &Options::default()).ok()?;
    let receiver = Socket::bind_plain(address, &Options::default()).ok()?;
    let out = Outgoing {
        destination: receiver.local_addr().ok()?,
        source: None,
        ecn: 0,
        dscp: DSCP_LOWER_EFFORT,
        priority: None,
        contents: b"rc3",
        segment_size: None,
        dont_fragment: true,
    };
    sender.try_send(&out).ok()?;
    let mut batch = RecvBatch::new();
    for _ in 0..LOOPBACK_PATIENCE_MS {
        if receiver.try_recv(&mut batch).is_ok()
            && let Some(datagram) = batch.datagrams().next()
        {
            return Some(datagram.meta.dscp == DSCP_LOWER_EFFORT);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::check) fn healthy() -> HostReport {
        HostReport {
            gso: true,
            gro: true,
            dscp_ipv4: Some(true),
            dscp_ipv6: None,
            so_priority: true,
            priority_cmsg: true,
            steering: true,
            leading_lens: LeadingLens::Exact,
            receive: SocketBuffer { asked: 100, got: 100 },
            send: SocketBuffer { asked: 100, got: 100 },
            default_qdisc: Some("pfifo_fast".to_owned()),
            device: None,
            advice: Vec::new(),
        }
    }

    #[test]
    fn a_healthy_host_gets_no_advice_and_a_capped_buffer_its_sysctl() {
        assert_eq!(healthy().advise(), []);
        let capped = HostReport { receive: SocketBuffer { asked: 100, got: 50 }, ..healthy() };
        assert_eq!(capped.advise()[0].commands, ["sysctl -w net.core.rmem_max=100"]);
    }

    #[test]
    fn a_queue_that_knows_no_priority_gets_a_line_for_the_device_of_the_default_route() {
        let (default_qdisc, device) = (Some("fq_codel".to_owned()), Some("eth7".to_owned()));
        let blind = HostReport { default_qdisc, device, ..healthy() };
        assert_eq!(blind.advise()[0].commands, ["tc qdisc replace dev eth7 root handle 1: prio bands 3"]);
    }
}
