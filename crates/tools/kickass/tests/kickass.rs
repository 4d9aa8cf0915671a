//! The `kickass` command as users run it, except what needs privileges.
#![forbid(unsafe_code)]

use std::{fs, process::Command};

fn kickass(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kickass")).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that `--help` lists, except `help`.
fn commands() -> Vec<String> {
    let help = kickass(&["--help"]);
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn manual_pages_cover_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("new/man1");
    kickass(&["man", "--out", pages.to_str().unwrap()]);
    let commands = commands();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in &commands {
        let page = fs::read_to_string(pages.join(format!("kickass-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let main = fs::read_to_string(pages.join("kickass.1")).unwrap();
    for page in [main, kickass(&["man"])] {
        assert!(
            page.contains("Exit codes") && commands.iter().all(|command| page.contains(command)),
            "{page}"
        );
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = kickass(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
    }
    #[cfg(target_os = "linux")]
    assert!(kickass(&["completions", "bash"]).contains("--picture"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_check_prints_whether_offload_is_on() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/forward.toml");
    let text = fs::read_to_string(example).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("forward.toml");
    let check = |text: &str| {
        fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kickass"));
        let output = command.args(["forward", "--check", "--config"]).arg(&config).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = check(&text);
    assert!(code == Some(0) && said.contains("offload on") && said.contains("50µs"), "{said}");
    let (code, said) = check(&text.replacen("[forward]\n", "[forward]\noffload = false\n", 1));
    assert!(code == Some(0) && said.contains("offload off"), "{said}");
    let (code, said) = check(&text.replacen("[forward]\n", "[forward]\ncoalesce = \"2ms\"\n", 1));
    assert!(code == Some(2) && said.contains("`forward.coalesce`"), "{said}");
}
