//! The tables, in Markdown.

use super::{Connections, Resident, Streams, limits::Limits, unread::Unread};

pub(crate) fn print_connections(rows: &[Connections], streams: usize) {
    println!("Kilobytes per connection, server / client:\n");
    println!(
        "| connections | transport | after the handshake | after an exchange | with {streams} open streams | \
         idle server: cores | wake-ups / s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {} | {:.4} | {:.1} |",
            row.count,
            row.transport.name(),
            kilobytes(row.after_handshake),
            kilobytes(row.after_exchange),
            kilobytes(row.with_streams),
            row.cores,
            row.wake_ups
        );
    }
}

pub(crate) fn print_streams(rows: &[Streams], streams: usize, carriers: usize) {
    println!("\nBytes per stream, {streams} open streams over {carriers} connections:\n");
    println!("| transport | server | client |\n|---|---|---|");
    for Streams { transport, each } in rows {
        println!("| {} | {} | {} |", transport.name(), each.server, each.client);
    }
}

pub(crate) fn print_unread(rows: &[Unread]) {
    println!("\nMegabytes, clients that write and a server that reads nothing:\n");
    println!("| settings | clients | transport | server | client | counted by the server | written |");
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            settings(row.limits),
            row.clients,
            row.transport.name(),
            megabytes(row.resident.server),
            megabytes(row.resident.client),
            megabytes(row.held),
            megabytes(row.written),
        );
    }
}

/// What is not the default.
fn settings(limits: Limits) -> String {
    let set = |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("`{name}` {}", megabytes(bytes)));
    let all = [
        set("receive_window", limits.receive_window.map(Into::into)),
        set("send_window", limits.send_window),
        set("set_memory_max", limits.memory_max),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() { "default".to_owned() } else { all.join(", ") }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn kilobytes(resident: Resident) -> String {
    format!("{:.1} / {:.1}", resident.server as f64 / 1e3, resident.client as f64 / 1e3)
}
