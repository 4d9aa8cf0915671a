//! What peers make an endpoint hold whose application reads nothing.

use super::{Arguments, Pair, Resident, Result, limits::Limits, transport::Transport};

/// One run: its settings, memory of both processes, what the server counts, what the clients wrote.
pub(crate) struct Unread {
    pub(crate) transport: Transport,
    pub(crate) clients: usize,
    pub(crate) limits: Limits,
    pub(crate) resident: Resident,
    /// Bytes that the server's endpoint counts; quinn does not count.
    pub(crate) held: u64,
    /// Bytes that the streams of the clients have accepted.
    pub(crate) written: u64,
}

/// The settings to compare: the defaults, windows as programs set them, a limit of the endpoint.
fn cases(clients: usize) -> [(usize, Limits); 4] {
    let default = Limits::streams(1);
    let windows = Limits { receive_window: Some(300_000), ..default };
    let both = Limits { send_window: Some(300_000), ..windows };
    let endpoint = Limits { memory_max: Some(64 << 20), ..default };
    [(clients, default), (clients, windows), (clients, both), (3 * clients, endpoint)]
}

/// Measures each case with each transport that has its settings.
pub(crate) fn measure(arguments: &Arguments) -> Result<Vec<Unread>> {
    let mut rows = Vec::new();
    for (clients, limits) in cases(arguments.unread) {
        for &transport in &arguments.transports {
            if transport != Transport::Quinn || limits.memory_max.is_none() {
                rows.push(run(arguments, transport, clients, limits)?);
            }
        }
    }
    Ok(rows)
}

fn run(arguments: &Arguments, transport: Transport, clients: usize, limits: Limits) -> Result<Unread> {
    let mut pair = Pair::start(transport, limits, arguments.settle)?;
    pair.step(&format!("connect {}", clients.saturating_sub(1)))?;
    pair.client.ask("write 1")?;
    std::thread::sleep(arguments.unread_time);
    let resident = pair.step("written")?;
    let held = pair.server.ask("held")?.parse()?;
    let written = pair.client.ask("written")?.parse()?;
    eprintln!("{}, {clients} unread, {limits:?}: {resident}, {held} bytes counted", transport.name());
    Ok(Unread { transport, clients, limits, resident, held, written })
}
