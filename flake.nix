{
  description = "QUIC that uses an idle link from the first round trip: the commands rc3 and kickass";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      workspace = builtins.fromTOML (builtins.readFile ./Cargo.toml);
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      command = pkgs: name: package: pkgs.rustPlatform.buildRustPackage {
        pname = name;
        version = workspace.workspace.package.version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        cargoBuildFlags = [ "--package" package "--bin" name ];
        # They need the network namespaces of a whole system.
        doCheck = false;
        nativeBuildInputs = [ pkgs.installShellFiles ];
        postInstall = ''
          $out/bin/${name} man --out man
          installManPage man/*.1
          for shell in bash fish zsh; do
            installShellCompletion --cmd ${name} --$shell <($out/bin/${name} completions $shell)
          done
        '';
        meta.mainProgram = name;
      };
    in {
      packages = nixpkgs.lib.genAttrs systems (system:
        let pkgs = nixpkgs.legacyPackages.${system}; in rec {
          rc3 = command pkgs "rc3" "rc3";
          kickass = command pkgs "kickass" "rc3-kickass-tools";
          default = rc3;
        });
    };
}
