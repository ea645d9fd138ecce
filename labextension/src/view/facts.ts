/** The small print of a run, as `ipyagent.ui.facts` has it: the more of it the higher `verbose`. */
import type { Run, Step, TokenUsage, ToolExecution } from '../protocol';
import { h } from './dom';
import { count, dollars, duration } from './format';
import { reveal } from './reveal';

/** From which `Run.verbose` on cards are open, costs of steps are shown, and ids and reasons. */
export const OPEN = 1;
export const COUNTED = 2;
export const ALL = 3;

/** Tokens in and out, and what the provider's cache had to do with them; "" for none. */
export function usageText(usage: TokenUsage): string {
  const { prompt_tokens, completion_tokens, cache_read_tokens, cache_creation_tokens } = usage;
  const cached = [
    cache_read_tokens > 0 ? `${count(cache_read_tokens)} from cache` : '',
    cache_creation_tokens > 0 ? `${count(cache_creation_tokens)} to cache` : ''
  ].filter(part => part !== '');
  const cache = cached.length > 0 ? ` (${cached.join(', ')})` : '';
  return prompt_tokens + completion_tokens === 0
    ? ''
    : `${count(prompt_tokens)} tokens in${cache}, ${count(completion_tokens)} out`;
}

/** What all steps took together, and the id under which logs and traces know the run. */
export function footer({ steps, trace_id, duration: took }: Run): (Node | string)[] {
  const total = steps.reduce<TokenUsage>((sum, { usage }) => added(sum, usage), NO_TOKENS);
  const costs = steps.map(({ cost_usd }) => cost_usd).filter(cost => cost !== null);
  const cost = costs.length > 0 ? dollars(costs.reduce((sum, each) => sum + each, 0)) : '';
  const facts = joined([usageText(total), cost, took === null ? '' : duration(took)]);
  const trace = h('span', { class: 'ipyagent-trace', 'data-ipyagent': 'trace' }, reveal(trace_id));
  const parts = [facts === '' ? null : facts, facts && trace_id ? ' · ' : null];
  return [...parts, ...(trace_id ? ['trace ', trace] : [])].filter(part => part !== null);
}

/** What one step took, and why the model ended it. */
export function stepFacts(step: Step, verbose: number): string {
  const took = step.executions.reduce((sum, execution) => sum + (execution.duration ?? 0), 0);
  return verbose >= COUNTED
    ? joined([
        `step ${step.number}`,
        usageText(step.usage),
        step.cost_usd === null ? '' : dollars(step.cost_usd),
        step.thinking_seconds ? `thinking ${duration(step.thinking_seconds)}` : '',
        took > 0 ? `tools ${duration(took)}` : '',
        verbose >= ALL && step.finish_reason ? `finish reason ${step.finish_reason}` : ''
      ])
    : '';
}

/** A call's id, who decided on it and when it began. */
export function callFacts(execution: ToolExecution, verbose: number): string {
  const { call, decision, decided_by, started_at } = execution;
  const began = started_at === null ? NaN : Date.parse(started_at);
  return verbose >= ALL
    ? joined([
        `call ${call.id}`,
        decision && decided_by ? `${decision} by ${decided_by}` : '',
        Number.isNaN(began) ? '' : `began ${new Date(began).toISOString().slice(11, 19)} UTC`
      ])
    : '';
}

const NO_TOKENS: TokenUsage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cache_read_tokens: 0,
  cache_creation_tokens: 0
};

function added(one: TokenUsage, other: TokenUsage): TokenUsage {
  return {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    cache_read_tokens: one.cache_read_tokens + other.cache_read_tokens,
    cache_creation_tokens: one.cache_creation_tokens + other.cache_creation_tokens
  };
}

function joined(parts: string[]): string {
  return parts.filter(part => part !== '').join(' · ');
}
