//! The tables, in Markdown.

use super::{Connections, Resident, Streams};

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

fn kilobytes(resident: Resident) -> String {
    format!("{:.1} / {:.1}", resident.server as f64 / 1e3, resident.client as f64 / 1e3)
}
