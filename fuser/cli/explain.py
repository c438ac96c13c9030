import click
@click.command("explain")
def command() -> int:
    return 0
