//! TUN devices: one IP packet per call. With offloads it is a super-packet of up to 64 KB, and checksums may be left to
//! the device; without, it is no longer than the MTU of the device, which others may change, and checksums are complete.

use std::{
    array,
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    net::{Ipv6Addr, UdpSocket},
    os::fd::AsFd,
    path::Path,
    thread,
    time::Duration,
};

use ipnet::IpNet;
use kickass::offload::{Offload, SegmentRun};
use rustix::{
    fd::BorrowedFd,
    io::{Errno, ioctl_fionbio, readv, writev},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::{config::PortConfig, error::ForwardError, port::RunLimits, vnet};

/// Packets that the kernel queues while this process does not run: 48 ms of full packets at 1 Gbit/s. The process reads
/// them as soon as it runs, so this is not a queue in front of the link. With offloads each can be a super-packet of 64 KB;
/// fewer places would lose packets of hosts that send them one by one.
const TX_QUEUE_LEN: u32 = 4000;

/// How often, and how many times, to ask whether an IPv6 address can be used: it can within a millisecond on an idle host.
const USABLE_CHECK: Duration = Duration::from_millis(5);
const USABLE_CHECKS: u32 = 1000;

/// A TUN device to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its name. A device that does not exist is created.
    pub name: String,
    /// The network namespace, as `ip netns` names it; `None` is the caller's.
    pub netns: Option<String>,
    /// Addresses of the host on the device: one of IPv4 at most.
    pub addresses: Vec<IpNet>,
    /// Longest packet, with its IP header.
    pub mtu: u16,
    /// Whether hosts may leave segmentation and checksums to the device.
    pub offload: bool,
}

impl DeviceConfig {
    /// The device of a port.
    pub fn new(port: &PortConfig, offload: bool) -> Self {
        let PortConfig { name, netns, addresses, mtu, .. } = port.clone();
        Self { name, netns, addresses, mtu, offload }
    }
}

/// An open device. If opening created it, closing removes it. Reading and writing never wait.
pub struct Device {
    device: SyncDevice,
    offload: bool,
}

impl Device {
    /// Opens a device and sets it up.
    ///
    /// # Errors
    /// If the system refuses, or there is no such namespace.
    pub fn open(config: &DeviceConfig) -> Result<Self, ForwardError> {
        let failed = |source: io::Error| {
            let hint = match source.kind() {
                // Also for EACCES, which is no matter of capabilities.
                io::ErrorKind::PermissionDenied => {
                    "devices need CAP_NET_ADMIN: start it as root, it drops its privileges afterwards; \
                     if it is root, IPv6 is disabled there (sysctl disable_ipv6)"
                }
                io::ErrorKind::ResourceBusy => "another program uses this device, or it is not a TUN device",
                _ => "check the name, the addresses and that the kernel supports TUN",
            };
            ForwardError::unusable(format_args!("device `{}`", config.name), hint)(source)
        };
        let open = || build(config).map(|device| Self { device, offload: config.offload }).map_err(failed);
        match &config.netns {
            None => open(),
            Some(name) => inside(name, open)?,
        }
    }

    /// How long a run it takes, of at most so many segments. Runs of UDP datagrams: since Linux 6.2.
    pub fn run_limits(&self, segments: usize) -> RunLimits {
        match self.offload {
            true => RunLimits { segments, datagrams: if self.device.udp_gso() { segments } else { 1 } },
            false => RunLimits::default(),
        }
    }

    /// Reads one packet into `short` as far as it fits, and the rest into the same place of `long`, which a device without
    /// offloads does not need. Returns its length and what it leaves to the device; `None` if there is no packet.
    ///
    /// # Errors
    /// If the system fails; a device that is down has no packets.
    pub fn read_offloaded(
        &self,
        short: &mut [u8],
        long: &mut [u8],
    ) -> io::Result<Option<(usize, Option<Offload>)>> {
        let mut header = vnet::NONE;
        let rest = long.get_mut(short.len()..).unwrap_or_default();
        let mut slices = [&mut header[..], short, rest].map(IoSliceMut::new);
        let (slices, before) = match self.offload {
            true => (&mut slices[..], vnet::LEN),
            // It has no header.
            false => (&mut slices[1..], 0),
        };
        let read = none_if_down(readv(&self.device, slices))?;
        let len = read.and_then(|bytes| bytes.checked_sub(before)).filter(|len| *len > 0);
        Ok(len.map(|len| (len, vnet::read(&header))))
    }

    /// Writes one packet; returns whether the kernel accepted it.
    pub fn write(&self, packet: &[u8]) -> bool {
        let slices = [&vnet::NONE, packet].map(IoSlice::new);
        writev(&self.device, &slices[usize::from(!self.offload)..]).is_ok()
    }

    /// Writes a run as one packet to a device with offloads; returns whether the kernel accepted it. `scratch` holds
    /// the header meanwhile.
    pub fn write_run(&self, run: &SegmentRun, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        scratch.extend_from_slice(&vnet::write(run));
        run.write_header(scratch);
        let mut slices: [IoSlice<'_>; 1 + SegmentRun::PIECES_MAX] = array::from_fn(|_| IoSlice::new(&[]));
        let mut used = 0;
        for (slice, piece) in slices.iter_mut().zip([&scratch[..]].into_iter().chain(run.payload())) {
            *slice = IoSlice::new(piece);
            used += 1;
        }
        writev(&self.device, &slices[..used]).is_ok()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// No packets at the moment are no error.
fn none_if_down(read: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        // Somebody set the device down: nothing arrives until it is up again. Or removed it: polling says so.
        Err(Errno::BADFD | Errno::IO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn build(config: &DeviceConfig) -> io::Result<SyncDevice> {
    let mut builder = DeviceBuilder::new().name(config.name.as_str()).mtu(config.mtu).with(|builder| {
        builder.tx_queue_len(TX_QUEUE_LEN).offload(config.offload);
    });
    for net in &config.addresses {
        if let IpNet::V4(net) = net {
            builder = builder.ipv4(net.addr(), net.prefix_len(), None);
        }
    }
    let device = builder.build_sync()?;
    for net in &config.addresses {
        let IpNet::V6(net) = net else { continue };
        match device.add_address_v6(net.addr(), net.prefix_len()) {
            // A device that existed before may have it.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => await_usable(net.addr()),
        }
    }
    ioctl_fionbio(&device, true)?;
    Ok(device)
}

/// Waits until programs can bind the address: on a busy host the kernel has work of its own before.
fn await_usable(address: Ipv6Addr) {
    for _ in 0..USABLE_CHECKS {
        if UdpSocket::bind((address, 0)).is_ok() {
            return;
        }
        thread::sleep(USABLE_CHECK);
    }
}

/// Runs a function inside a network namespace. Only this thread enters it and returns.
fn inside<T>(name: &str, what: impl FnOnce() -> T) -> Result<T, ForwardError> {
    let failed = ForwardError::unusable(
        format!("network namespace `{name}`"),
        "create it with ip netns add, and start the forwarder as root",
    );
    let enter = |file: &File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    let home = File::open("/proc/thread-self/ns/net").map_err(&failed)?;
    let there = File::open(Path::new("/run/netns").join(name)).map_err(&failed)?;
    enter(&there).map_err(|error| failed(error.into()))?;
    let done = what();
    enter(&home).map_err(|error| failed(error.into()))?;
    Ok(done)
}
