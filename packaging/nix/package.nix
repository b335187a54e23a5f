{ lib, rustPlatform, installShellFiles }:
rustPlatform.buildRustPackage {
  pname = "overdue";
  version = (lib.importTOML ../../Cargo.toml).package.version;
  src = ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [ "--package" "overdue" ];
  # The tests start servers and need the network of the machine.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    mkdir man
    $out/bin/overdue man man
    installManPage man/*
    for shell in bash fish zsh; do
      $out/bin/overdue completions $shell > overdue.$shell
      installShellCompletion --cmd overdue --$shell overdue.$shell
    done
  '';
  meta = {
    description = "Notifies people when a scheduled job did not report";
    license = lib.licenses.mit;
    mainProgram = "overdue";
  };
}
