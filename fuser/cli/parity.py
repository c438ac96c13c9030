import click
@click.command("parity")
def command() -> int:
    return 0
