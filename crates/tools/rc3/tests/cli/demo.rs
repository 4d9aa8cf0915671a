//! `rc3 demo` as users run it. No assertion depends on the machine's speed.
#![cfg(unix)]

use std::process::Command;

fn demo(flags: &[&str]) -> std::process::Output {
    demo_at("50mbit", flags)
}

fn demo_at(rate: &str, flags: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_rc3"))
        .env_remove("RUST_LOG")
        .args(["demo", "--runs", "1", "--rate", rate, "--rtt", "20ms"])
        .args(flags)
        .output()
        .expect("the demonstration starts")
}

#[test]
fn json_is_one_object_and_nothing_else() {
    let output = demo(&["--sizes", "10k,100k", "--levels", "2", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&json["rate_bits_per_second"], &json["rtt_ms"]), (&50_000_000.into(), &20.0.into()));
    let results = json["results"].as_array().expect("results");
    let order: Vec<_> =
        results.iter().map(|r| (r["bytes"].as_u64().unwrap(), r["scheme"].as_str().unwrap())).collect();
    assert_eq!(order, [(10_000, "plain"), (10_000, "rc3"), (100_000, "plain"), (100_000, "rc3")]);
    for result in results {
        assert_eq!(result["fct_ms_all"].as_array().unwrap().len(), 1);
        // Lower bound of the propagation delay.
        assert!(result["fct_ms_median"].as_f64().unwrap() >= 30.0, "{result}");
        let rlp: Vec<_> =
            result["rlp_bytes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(rlp.len(), 2);
        let first = result["primary_bytes"].as_u64().unwrap() + rlp.iter().sum::<u64>();
        assert_eq!(first, result["bytes"].as_u64().unwrap(), "{result}");
    }
    assert!(results[3]["rlp_bytes"][0].as_u64().unwrap() > 0, "RLP brought nothing");
    let beside = &json["fast_card"];
    assert_eq!((&beside["queue"], &beside["nic_bits_per_second"]), (&"fifo".into(), &500_000_000.into()));
    assert_eq!(beside["results"].as_array().expect("results of the second link").len(), 4);
}

#[test]
fn every_queue_carries_whole_transfers() {
    for queue in ["fifo", "fq", "policer"] {
        let flags = ["--sizes", "300k", "--queue", queue, "--nic", "500mbit", "--buffer", "0.5bdp", "--json"];
        let output = demo(&flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!((&json["queue"], &json["buffer_bytes"]), (&queue.into(), &62_500.into()));
        assert!(json.get("fast_card").is_none(), "the user chose a link");
        // A transfer that arrives damaged, or not at all, ends the command.
        assert_eq!(json["results"].as_array().expect("results").len(), 2, "{json}");
    }
}

/// Its receiver reads its socket once a millisecond, and goes on when the flow is over.
#[test]
fn a_long_flow_on_a_fast_link_is_whole() {
    let output = demo_at("100mbit", &["--sizes", "5M,10k", "--queue", "fifo", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn table_and_picture_are_printed_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("fct.svg");
    let output =
        demo(&["--sizes", "100k", "--loss", "0.01", "--load", "0.3", "--svg", svg.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for words in ["loss 1 %, background 30 %", "rc3/ideal", "every transfer verified", "100 kB  plain"] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    assert_eq!(text.matches("every transfer verified").count(), 2, "one table for each link\n{text}");
    assert!(text.contains("card 500mbit") && text.contains("a FIFO that ignores marks"), "{text}");
    assert!(!text.contains('\x1b'), "colours in a pipe");
    assert!(std::fs::read_to_string(svg).unwrap().contains("</svg>"));
}
