# Homebrew: builds from the source archive, on macOS and Linux.
class Rc3 < Formula
  desc "Sends files over wide-area links, verified and resumable"
  homepage "@HOME@"
  url "@URL@/rc3-@VERSION@-source.tar.gz"
  sha256 "@SHA256 rc3-@VERSION@-source.tar.gz@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/tools/rc3")
    system bin/"rc3", "man", "--out", man1
    generate_completions_from_executable(bin/"rc3", "completions")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/rc3 --version")
  end
end
