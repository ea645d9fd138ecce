/** Looks at the page again and again while something waits. */
export class Poll {
  private timer: number | null = null;

  constructor(
    private look: () => void,
    private milliseconds: number
  ) {}

  /** Start or stop looking. */
  set isOn(isOn: boolean) {
    if (isOn) {
      this.timer ??= window.setInterval(this.look, this.milliseconds);
    } else if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
    }
  }
}
